/**
 * From each kill until the killed is back: what may fail then, and that nothing else failed ever. In: kills and all
 * requests. Out: whether everything answers again, and every request that failed though it may not have.
 */
import type { Failure, Kind, Request, Requests } from './requests.js';

export type MayFail = Partial<Record<Kind, readonly Failure[]>>;

export interface Outage {
  of: string;
  mayFail: MayFail;
  /** The only project that is affected; undefined: all. */
  ref: string | undefined;
  from: number;
  /** When it was back; Infinity until then. */
  to: number;
}

/** Successful responses in a row, of each kind and project, that end an outage. */
const BACK_AFTER = 3;
const PROJECTS_OWN: readonly Kind[] = ['REST', 'auth', 'storage', 'functions', 'realtime'];

export class Outages {
  readonly all: Outage[] = [];
  readonly #requests: Requests;
  readonly #refs: readonly string[];

  constructor(requests: Requests, refs: readonly string[]) {
    this.#requests = requests;
    this.#refs = refs;
  }

  begin(of: string, mayFail: MayFail, ref?: string): Outage {
    const outage = { of, mayFail, ref, from: performance.now(), to: Number.POSITIVE_INFINITY };
    this.all.push(outage);
    return outage;
  }

  /** Whether all that may have failed since `outage` began was answered since, again and again. */
  answersAgain({ mayFail, ref, from }: Outage): boolean {
    return Object.keys(mayFail).every((kind) => this.answered(kind as Kind, BACK_AFTER, from, ref));
  }

  /** Whether the last `count` requests of a kind, to each project, were begun after `since` and answered. */
  answered(kind: Kind, count: number, since: number, only?: string): boolean {
    const refs = PROJECTS_OWN.includes(kind) ? (only ? [only] : this.#refs) : [undefined];
    return refs.every((ref) => {
      let answered = 0;
      for (let at = this.#requests.all.length - 1; at >= 0 && answered < count; at--) {
        const request = this.#requests.all[at] as Request;
        if (request.ended < since) return false;
        if (request.kind !== kind || request.ref !== ref) continue;
        if (request.begun < since || request.failure !== undefined) return false;
        answered++;
      }
      return answered === count;
    });
  }

  /** In words, each failure that no outage excuses. */
  unexcused(): string[] {
    return this.#requests.all
      .filter((request) => request.failure !== undefined && !this.all.some((outage) => excuses(outage, request)))
      .map((request) => `${request.kind}: ${request.what}: ${request.failure} ${this.#when(request)}`);
  }

  during(request: Request): Outage | undefined {
    return this.all.find(({ from, to }) => request.begun < to && request.ended > from);
  }

  #when(request: Request): string {
    const outage = this.during(request);
    return outage ? `while ${outage.of} was away` : 'while all was up';
  }
}

const excuses = ({ mayFail, ref, from, to }: Outage, request: Request): boolean =>
  request.begun < to &&
  request.ended > from &&
  (ref === undefined || ref === request.ref) &&
  (mayFail[request.kind]?.includes(request.failure as Failure) ?? false);
