/**
 * One function of a project: its served version, and its isolate. In: deployments, calls, changes of the environment.
 * Out: an isolate that serves. A deploy starts the new isolate before it ends the old one, so that no call fails.
 */
import { delayOf } from '@slipway/program';
import type { Account } from '@slipway/sandbox';
import { BootFailed, type EndReason, Isolate, type IsolateOptions, Unavailable } from './isolate.js';
import type { FunctionLimits } from './limits.js';
import { FunctionLog } from './logs.js';
import { withoutReserved } from './reserved-environment.js';
import type { Deployment } from './store.js';

export interface FunctionSurroundings {
  limits: FunctionLimits;
  deno: IsolateOptions['deno'];
  bootstrap: string;
  sockets: string;
  gateway: IsolateOptions['gateway'];
  publicPlace: IsolateOptions['publicPlace'];
  deniedNetworks: readonly string[];
  ownAddresses: IsolateOptions['ownAddresses'];
  account: Account | undefined;
  cache: string;
  source(version: number): string;
  /** Called at each start of an isolate. */
  environment(): Record<string, string>;
  /** Makes room for one more isolate. Throws `Unavailable` if there is none. */
  admit(): void;
  /** Throws `Unavailable` if the project has used up its processor time. */
  checkShare(): void;
  started(isolate: Isolate, log: (message: string) => void): void;
}

/** Returns the key of a function in maps. */
export const keyOf = (ref: string, name: string) => `${ref}/${name}`;

/** Delays between failed starts, without jitter, because Retry-After reports the delay. */
const BACKOFF = { firstMs: 500, maxMs: 30_000, jitter: 0 };
/** Number of failures in a row before the next start is delayed. */
const FREE_FAILURES = 2;

export class EdgeFunction {
  readonly log: FunctionLog;
  deployment: Deployment;
  #current: Isolate | undefined;
  #starting: Promise<Isolate> | undefined;
  /** Consecutive failed starts, and isolates that ended soon after their start. */
  #failures = 0;
  #notBefore = 0;
  #removed = false;
  /** Number of changes of the environment. */
  #changes = 0;

  constructor(
    readonly ref: string,
    readonly name: string,
    deployment: Deployment,
    private readonly surroundings: FunctionSurroundings,
  ) {
    this.deployment = deployment;
    this.log = new FunctionLog(surroundings.limits);
  }

  /** Returns an isolate that serves, with a reserved place: synchronously if it is running, as in most calls. */
  acquire(): Isolate | Promise<Isolate> {
    const isolate = this.#current;
    if (isolate !== undefined) return this.#enter(isolate);
    // Checked first, so that no isolate is started for a call that is then rejected.
    this.surroundings.checkShare();
    return this.#start().then((started) => this.#enter(started));
  }

  get idleSince(): number | undefined {
    return this.#current?.active === 0 ? this.#current.lastUsed : undefined;
  }

  /** Serves this version from now on. If it does not start, throws `BootFailed`, and the former version stays. */
  async deploy(deployment: Deployment): Promise<void> {
    const isolate = await this.#upToDate(() => deployment.version);
    const before = this.#current;
    this.deployment = deployment;
    this.#failures = 0;
    this.#notBefore = 0;
    this.#current = isolate;
    this.log.add('system', deployment.version, `version ${deployment.version} is deployed`);
    before?.drain();
  }

  /** The next call gets an isolate with the present environment. */
  refresh(): void {
    this.#changes += 1;
    this.#current?.drain();
    this.#current = undefined;
    this.#notBefore = 0;
  }

  /** Called after a timeout. The isolate may be stuck, so it gets no further calls; its calls in flight continue. */
  tookTooLong(isolate: Isolate): void {
    this.log.add('system', this.deployment.version, 'a call took too long and was cut off');
    isolate.drain();
    if (this.#current === isolate) this.#current = undefined;
  }

  /** Ends an idle isolate to make room. */
  rest(): void {
    this.#current?.end('asked');
    this.#current = undefined;
  }

  remove(): Promise<void> {
    this.#removed = true;
    const isolate = this.#current;
    this.#current = undefined;
    isolate?.drain();
    return Promise.resolve();
  }

  async end(): Promise<void> {
    this.#removed = true;
    this.#current?.end('asked');
    await this.#current?.ended;
  }

  #enter(isolate: Isolate): Isolate {
    this.surroundings.checkShare();
    if (isolate.active >= this.surroundings.limits.concurrency) {
      throw new Unavailable('TOO_MANY_REQUESTS', 'Too many requests to this function are under way', 1);
    }
    isolate.begin();
    return isolate;
  }

  #start(): Promise<Isolate> {
    if (this.#starting) return this.#starting;
    const wait = this.#notBefore - performance.now();
    if (wait > 0) {
      const message = 'Function failed to start (please check logs)';
      return Promise.reject(new Unavailable('BOOT_ERROR', message, Math.ceil(wait / 1_000)));
    }
    this.#starting = this.#boot().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #boot(): Promise<Isolate> {
    let isolate: Isolate;
    try {
      isolate = await this.#upToDate(
        () => this.deployment.version,
        () => this.#current !== undefined,
      );
    } catch (error) {
      if (!(error instanceof BootFailed)) throw error;
      this.#backOff();
      throw new Unavailable('BOOT_ERROR', 'Function failed to start (please check logs)', 1);
    }
    // A deploy or removal during the start: callers get the present state.
    if (this.#current) {
      isolate.drain();
      return this.#current;
    }
    if (this.#removed) isolate.drain();
    else this.#current = isolate;
    return isolate;
  }

  /**
   * Returns a serving isolate that was started after the last change of version and environment. `isMet` ends the wait
   * early if another isolate serves by then.
   */
  async #upToDate(version: () => number, isMet = () => false): Promise<Isolate> {
    for (;;) {
      const [wanted, changes] = [version(), this.#changes];
      const isolate = this.#make(wanted);
      await isolate.serving;
      if (isMet() || (wanted === version() && changes === this.#changes)) return isolate;
      isolate.drain();
    }
  }

  #make(version: number): Isolate {
    const { admit, checkShare: _, started, source, ...rest } = this.surroundings;
    admit();
    const { environment, ignored } = withoutReserved(rest.environment());
    if (ignored.length > 0)
      this.log.add('system', version, `variables with reserved names are ignored: ${ignored.join(', ')}`);
    const isolate: Isolate = new Isolate({
      ...rest,
      source: source(version),
      environment,
      log: (level, message) => this.log.add(level, version, message),
      onEnd: (ended) => this.#onEnd(ended),
    });
    started(isolate, (message) => this.log.add('system', version, message));
    return isolate;
  }

  #onEnd(isolate: Isolate): void {
    if (isolate !== this.#current) return;
    this.#current = undefined;
    const ownFault: EndReason[] = ['crash', 'cpu', 'memory'];
    if (isolate.endReason && ownFault.includes(isolate.endReason)) this.#backOff();
  }

  /** The first failures are treated as accidents: the next call starts another isolate at once. */
  #backOff(): void {
    this.#failures += 1;
    if (this.#failures <= FREE_FAILURES) return;
    this.#notBefore = performance.now() + delayOf(BACKOFF, this.#failures - FREE_FAILURES);
  }

  /** Resets the failures after a complete response. */
  succeeded(): void {
    this.#failures = 0;
  }
}
