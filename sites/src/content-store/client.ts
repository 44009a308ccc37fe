/**
 * Client of a store of deployments and logs on another machine; `server.ts` is the server. In: the address of the
 * project's store, and the platform's token. Out: deployments and logs. If the store does not respond, the call fails
 * and the caller retries.
 */
import { Readable } from 'node:stream';
import { type JsonBound, parseJson, readBounded } from '@slipway/program';
import { Agent } from 'undici';
import type { LogSection } from '../build-logs.js';
import { type DeploymentLimits, Output, OutputRefused } from '../output.js';
import { refOfSite } from '../preview-names.js';
import type { KeptOutputs, Published } from '../sites.js';
import { framesOf } from './frames.js';
import { MOST_OF_BODY } from './server.js';

export interface ContentStoreClientOptions {
  /** Returns the `http://host:port` of the project's store. */
  originOf(ref: string): string;
  token(): Promise<string>;
}

const PATIENCE_MS = 30_000;
/**
 * How long in milliseconds the platform's token is reused. A log takes many requests, and each read of the token may be
 * a request for a Secret.
 */
const TOKEN_CACHE_MS = 10_000;
/** Timeout of a publication in milliseconds. It is long because the store compresses all files before it responds. */
const PUBLICATION_MS = 10 * 60_000;
const MOST_OF_ANSWER: JsonBound = { bytes: 1024 * 1024, depth: 4, values: 10_000 };

interface Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** The ref of a project, or the name of one of its previews. */
  site: string;
  /** The path after `/sites/<site>`, with the query. */
  path: string;
  body?: Buffer | string;
}

export class ContentStoreClient {
  readonly #agent = new Agent({ headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS, allowH2: false });

  #token: { value: Promise<string>; until: number } | undefined;

  constructor(private readonly options: ContentStoreClientOptions) {}

  async liveId(site: string): Promise<string | undefined> {
    const { body } = await this.#send({ method: 'GET', site, path: '' });
    return (parseJson(body, MOST_OF_ANSWER) as { live: string | null }).live ?? undefined;
  }

  /** Returns the bytes of the project's deployments and logs. Undefined: the store is of an earlier release. */
  async bytes(ref: string): Promise<number | undefined> {
    const { status, body } = await this.#send({ method: 'GET', site: ref, path: '/usage' });
    return status === 200 ? (parseJson(body, MOST_OF_ANSWER) as { bytes: number }).bytes : undefined;
  }

  /** Returns false if the store does not have the deployment. */
  async goLive(site: string, build: string): Promise<boolean> {
    const body = JSON.stringify({ build });
    return (await this.#send({ method: 'PUT', site, path: '/live', body })).status !== 404;
  }

  /** Deletes all other logs and outputs of the project. `builds`: those whose logs are kept. */
  async keepOnly(ref: string, builds: readonly string[], outputs: KeptOutputs): Promise<void> {
    await this.#send({ method: 'POST', site: ref, path: '/kept', body: JSON.stringify({ builds, ...outputs }) });
  }

  /** Removes everything of the project. */
  async remove(ref: string): Promise<void> {
    await this.#send({ method: 'DELETE', site: ref, path: '' });
  }

  /** Removes the log of the build. Removes its deployment too, unless it is live. */
  async discard(site: string, build: string): Promise<void> {
    await this.#send({ method: 'DELETE', site, path: pathOf(build) });
  }

  /** Writes at a position of a section. */
  async putLog(
    ref: string,
    build: string,
    { number, section }: { number: number; section: string },
    { at, bytes }: { at: number; bytes: Buffer },
  ): Promise<void> {
    for (let done = 0; done < bytes.length; done += MOST_OF_BODY) {
      const body = bytes.subarray(done, done + MOST_OF_BODY);
      const path = `${pathOf(build)}/log/${number}-${section}?at=${at + done}`;
      await this.#send({ method: 'PUT', site: ref, path, body });
    }
  }

  async sections(ref: string, build: string): Promise<LogSection[]> {
    const { body } = await this.#send({ method: 'GET', site: ref, path: `${pathOf(build)}/log` });
    return parseJson(body, MOST_OF_ANSWER) as LogSection[];
  }

  /**
   * Returns at most `most` bytes from `position`, which counts across all sections. Returns no bytes at the end of the
   * log.
   */
  async read(ref: string, build: string, position: number, most: number): Promise<Buffer> {
    const path = `${pathOf(build)}/log/bytes?at=${position}&most=${most}`;
    return (await this.#send({ method: 'GET', site: ref, path })).body;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #send({ method, site, path, body }: Call): Promise<{ status: number; body: Buffer }> {
    const answer = await this.#agent.request({
      origin: this.options.originOf(refOfSite(site)),
      path: `/sites/${encodeURIComponent(site)}${path}`,
      method,
      headers: { authorization: `Bearer ${await this.#cachedToken()}` },
      ...(body === undefined ? {} : { body }),
    });
    const bytes = await readBounded(answer.body, MOST_OF_ANSWER.bytes);
    const { statusCode: status } = answer;
    if (status === 200 || status === 204 || status === 404) return { status, body: bytes };
    if (status === 401) this.#token = undefined;
    throw new Error(`the store of deployments answered ${method} with the status ${status}`);
  }

  #cachedToken(): Promise<string> {
    if (this.#token && performance.now() < this.#token.until) return this.#token.value;
    const token = { value: this.options.token(), until: performance.now() + TOKEN_CACHE_MS };
    this.#token = token;
    token.value.catch(() => {
      if (this.#token === token) this.#token = undefined;
    });
    return token.value;
  }
}

/**
 * Publishes the output of one build. The token allows nothing else. `origin` is the store, or a proxy in front of it.
 * `ref`: the ref of a project, or the name of one of its previews.
 */
export async function publishTo(
  { origin, token, ref, build }: { origin: string; token: string; ref: string; build: string },
  folder: string,
  limits: DeploymentLimits,
): Promise<Published> {
  const agent = new Agent({ headersTimeout: PUBLICATION_MS, bodyTimeout: PUBLICATION_MS, allowH2: false });
  const output = new Output(folder, limits);
  try {
    const answer = await agent.request({
      origin,
      path: `/sites/${encodeURIComponent(ref)}${pathOf(build)}/deployment`,
      method: 'PUT',
      headers: { authorization: `Bearer ${token}` },
      body: Readable.from(framesOf(output), { objectMode: false }),
    });
    const bytes = await readBounded(answer.body, MOST_OF_ANSWER.bytes);
    const published = parseJson(bytes, MOST_OF_ANSWER) as Published & { message?: string };
    if (answer.statusCode === 422) throw new OutputRefused(published.message);
    if (answer.statusCode !== 200) throw new Error(`the store answered ${answer.statusCode}: ${published.message}`);
    return { ...published, warnings: [...output.leftOut, ...published.warnings] };
  } finally {
    await agent.destroy();
  }
}

const pathOf = (build: string) => `/builds/${encodeURIComponent(build)}`;
