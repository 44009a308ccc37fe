/**
 * One function of one project: which version callers get, and the isolate that answers them. In: deployments, calls,
 * changes of the environment. Out: an isolate that serves. A swap begins the new one before it lets go of the old, so
 * no call fails.
 */
import type { Account } from './account.js';
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
  blockedAddresses: readonly string[];
  ownAddresses: IsolateOptions['ownAddresses'];
  account: Account | undefined;
  cache: string;
  source(version: number): string;
  /** Asked whenever an isolate is started. */
  environment(): Record<string, string>;
  /** Makes room for one more; throws `Unavailable` where there is none. */
  admit(): void;
  /** Throws `Unavailable` where the project has used up its processor time. */
  checkShare(): void;
  started(isolate: Isolate, log: (message: string) => void): void;
}

/** Returns the key of a function in maps. */
export const keyOf = (ref: string, name: string) => `${ref}/${name}`;

const FIRST_BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 30_000;

export class EdgeFunction {
  readonly log: FunctionLog;
  deployment: Deployment;
  #current: Isolate | undefined;
  #starting: Promise<Isolate> | undefined;
  /** Starts that failed in a row, and isolates that ended soon after. */
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

  /** One that serves, with a place in it taken. Without a promise where it runs already, as it nearly always does. */
  acquire(): Isolate | Promise<Isolate> {
    const isolate = this.#current;
    if (isolate !== undefined) return this.#enter(isolate);
    // Before an isolate is started for a call that is then refused.
    this.surroundings.checkShare();
    return this.#start().then((started) => this.#enter(started));
  }

  get idleSince(): number | undefined {
    return this.#current?.active === 0 ? this.#current.lastUsed : undefined;
  }

  /** Serves this version from now on; throws `BootFailed`, and nothing has changed, where it does not come up. */
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

  /** The next call gets an isolate with the environment as it is now. */
  refresh(): void {
    this.#changes += 1;
    this.#current?.drain();
    this.#current = undefined;
    this.#notBefore = 0;
  }

  /**
   * A call was cut off. Its isolate may never answer again, and takes no more; those that are under way in it go on.
   */
  tookTooLong(isolate: Isolate): void {
    this.log.add('system', this.deployment.version, 'a call took too long and was cut off');
    isolate.drain();
    if (this.#current === isolate) this.#current = undefined;
  }

  /** Ends what is idle, to make room. */
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
    // Deployed anew or removed while it started: those who waited get what is now.
    if (this.#current) {
      isolate.drain();
      return this.#current;
    }
    if (this.#removed) isolate.drain();
    else this.#current = isolate;
    return isolate;
  }

  /**
   * Serving, and begun after the last change of what it was begun with; of no matter once there `isMet` another way.
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

  /** The first end of one that ran is an accident, and the next call starts another at once. */
  #backOff(): void {
    this.#failures += 1;
    if (this.#failures < 3) return;
    const pause = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (this.#failures - 3));
    this.#notBefore = performance.now() + pause;
  }

  /** An answer that came to its end: whatever failed before is over. */
  succeeded(): void {
    this.#failures = 0;
  }
}
