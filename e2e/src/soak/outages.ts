/**
 * Records outages. An outage lasts from a kill until the killed process works again. Only requests that the outage
 * affects may fail. In: kills and all requests. Out: whether everything responds again, and every failure that no
 * outage excuses.
 */
import type { Failure, Kind, Request, Requests } from './requests.js';

export type MayFail = Partial<Record<Kind, readonly Failure[]>>;

export interface Outage {
  of: string;
  mayFail: MayFail;
  /** The only affected project. Undefined: all projects. */
  ref: string | undefined;
  from: number;
  /** The end of the outage. Infinity until then. */
  to: number;
}

/** Number of successful responses in a row, for each kind and project, that end an outage. */
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

  /** True if everything that `outage` affects has responded repeatedly since it began. */
  answersAgain({ mayFail, ref, from }: Outage): boolean {
    return Object.keys(mayFail).every((kind) => this.answered(kind as Kind, BACK_AFTER, from, ref));
  }

  /** True if the last `count` requests of a kind, to each project, began after `since` and succeeded. */
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

  /** Returns, in words, each failure that no outage excuses. */
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
    return outage ? `while ${outage.of} was unavailable` : 'while everything was available';
  }
}

const excuses = ({ mayFail, ref, from, to }: Outage, request: Request): boolean =>
  request.begun < to &&
  request.ended > from &&
  (ref === undefined || ref === request.ref) &&
  (mayFail[request.kind]?.includes(request.failure as Failure) ?? false);
