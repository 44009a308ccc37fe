/**
 * Caches every EdgeFunction, without its code, and waits until one reaches a state. In: a watch of the Kubernetes API.
 * Out: the function once it satisfies the caller's condition.
 */
import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { GROUP, VERSION } from '@slipway/crds';
import { Informer } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { LOG } from '../settings/injected.js';
import type { SeenFunction } from './function-resources.js';

/** Number of functions in a page of the initial list; each may have a mebibyte of code. */
const PAGE = 16;

/** Milliseconds between reads of an awaited function while the watch is broken. */
const ASK_MS = 1_000;

type Look = () => void;

@Injectable()
export class FunctionCache implements OnModuleInit, OnApplicationShutdown {
  readonly #informer: Informer<SeenFunction>;
  /** Callbacks of waiting deploys, by uid of the function. */
  readonly #waiting = new Map<string, Set<Look>>();

  constructor(
    private readonly kubernetes: Kubernetes,
    @Inject(LOG) log: Logger,
  ) {
    this.#informer = new Informer({
      client: kubernetes.client,
      resource: 'edgefunctions',
      path: `/apis/${GROUP}/${VERSION}/edgefunctions`,
      pageLimit: PAGE,
      keep: withoutCode,
      log,
    });
    this.#informer.onChange(({ before, after }) => {
      for (const look of this.#waiting.get((after ?? before)?.metadata.uid ?? '') ?? []) look();
    });
  }

  onModuleInit(): void {
    void this.#informer.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#informer.close();
  }

  /**
   * Resolves with the function once `isDone` is true, or with its present state when `signal` aborts; undefined if it
   * was deleted. `answer` is the response to the caller's own write.
   */
  async until(
    answer: SeenFunction,
    isDone: (object: SeenFunction) => boolean,
    signal: AbortSignal,
  ): Promise<SeenFunction | undefined> {
    this.#informer.learn(answer);
    const { name, namespace, uid } = answer.metadata;
    const { promise, resolve } = Promise.withResolvers<void>();
    const current = () => {
      const object = this.#informer.get(name, namespace);
      return object?.metadata.uid === uid ? object : undefined;
    };
    const look = () => {
      const object = current();
      if (!object || isDone(object)) resolve();
    };
    this.#await(uid, look);
    const asking = setInterval(() => void this.#ask(answer), ASK_MS);
    signal.addEventListener('abort', () => resolve(), { once: true });
    look();
    if (signal.aborted) resolve();
    await promise;
    clearInterval(asking);
    this.#await(uid, look, false);
    return current();
  }

  /** Reads the function directly while the watch is broken or not permitted. */
  async #ask(answer: SeenFunction): Promise<void> {
    if (this.#informer.isCurrent) return;
    const { name, namespace } = answer.metadata;
    const path = `/apis/${GROUP}/${VERSION}/namespaces/${namespace}/edgefunctions/${name}`;
    const get = () => this.kubernetes.client.get<SeenFunction>(path);
    const object = await this.kubernetes.unlessMissing(get).catch(() => answer);
    if (object) this.#informer.learn(object);
    else this.#informer.forget(answer);
  }

  #await(uid: string, look: Look, begins = true): void {
    const looks = this.#waiting.get(uid) ?? new Set();
    if (begins) looks.add(look);
    else looks.delete(look);
    if (looks.size > 0) this.#waiting.set(uid, looks);
    else this.#waiting.delete(uid);
  }
}

const withoutCode = (object: SeenFunction): SeenFunction => ({ ...object, spec: { ...object.spec, code: '' } });
