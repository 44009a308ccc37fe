/**
 * Reports builds to GitHub as statuses of their commits. In: a repository, a token, and the progress of a build. Out:
 * requests, only to GitHub's API, in the order of the reports. A build neither waits for a report nor fails because of
 * one.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { ConcurrencyLimit, delayOf } from '@slipway/program';
import type { Outbound } from '@slipway/program/outbound.js';
import type { Logger } from 'pino';

export type CommitState = 'pending' | 'success' | 'failure' | 'error';

export interface CommitReport {
  commit: string;
  state: CommitState;
  description: string;
  /** The URL of the deployed site. */
  url?: string;
}

export interface ReportedBuild {
  repoUrl: string;
  token: string | null;
  /** The name that distinguishes the statuses of one commit. */
  context: string;
  /** Called with a sentence for the owner when GitHub refuses a report. */
  onRefusal(why: string): void;
}

export interface CommitStatusesOptions {
  outbound: Outbound;
  log: Logger;
  /** The API of each supported git host, by host name. */
  apis?: Readonly<Record<string, string>>;
}

const GITHUB = { 'github.com': 'https://api.github.com' };
const TIMEOUT_MS = 10_000;
const TRIES = 4;
const BACKOFF = { firstMs: 1_000, maxMs: 30_000 };
const AT_ONCE = { most: 4, ofOne: 4, waiting: 100 };
/** Maximum characters of a description at GitHub. */
const LONGEST_DESCRIPTION = 140;
const NAME = /^(?!\.{1,2}$)[\w.-]{1,100}$/;

export class CommitStatuses {
  readonly #options: CommitStatusesOptions;
  readonly #limit = new ConcurrencyLimit(AT_ONCE);
  readonly #stop = new AbortController();
  readonly #apis: Readonly<Record<string, string>>;

  constructor(options: CommitStatusesOptions) {
    this.#options = options;
    this.#apis = options.apis ?? GITHUB;
  }

  /** Returns the function that reports the build. It does nothing without a token or for another git host. */
  of(build: ReportedBuild): (report: CommitReport) => void {
    const url = this.#urlOf(build.repoUrl);
    if (url === undefined || build.token === null) return () => undefined;
    let isRefused = false;
    let last: Promise<void> = Promise.resolve();
    return (report) => {
      last = last.then(async () => {
        if (!isRefused) isRefused = !(await this.#report(`${url}/${report.commit}`, build, report));
      });
    };
  }

  close(): Promise<void> {
    this.#stop.abort(new Error('the operator stops'));
    return this.#options.outbound.close();
  }

  /** Sends a report. Never rejects. Returns false if further reports would be refused too. */
  async #report(url: string, build: ReportedBuild, report: CommitReport): Promise<boolean> {
    const { signal } = this.#stop;
    for (let attempt = 1; ; attempt += 1) {
      const status = await this.#limit.run('', () => this.#send(url, build, report)).catch(() => undefined);
      if (status !== undefined && status < 300) return true;
      if (status !== undefined && status < 500 && status !== 429) {
        build.onRefusal(
          `GitHub refused the commit status (${status}): the token needs write access to commit statuses.`,
        );
        return false;
      }
      if (attempt === TRIES || signal.aborted) break;
      await pause(delayOf(BACKOFF, attempt), undefined, { signal }).catch(() => undefined);
    }
    this.#options.log.warn({ context: build.context, state: report.state }, 'commit status not reported');
    return true;
  }

  /** Sends one request. A redirect is not followed: the token would be sent to its target. */
  async #send(url: string, { token, context }: ReportedBuild, report: CommitReport): Promise<number> {
    const { state, description, url: target } = report;
    const body = { state, context, description: description.slice(0, LONGEST_DESCRIPTION), target_url: target };
    const answer = await this.#options.outbound.fetch(url, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'user-agent': 'slipway',
      },
      body: JSON.stringify(body),
      signal: AbortSignal.any([this.#stop.signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    await answer.body?.cancel();
    return answer.status;
  }

  /** Undefined: the repository's host does not accept reports. */
  #urlOf(repoUrl: string): string | undefined {
    const short = /^git@([^/:]+):(.+)$/.exec(repoUrl);
    const address = short ? `ssh://git@${short[1]}/${short[2]}` : repoUrl;
    if (!URL.canParse(address)) return undefined;
    const { protocol, host, pathname } = new URL(address);
    const api = protocol === 'https:' || protocol === 'ssh:' ? this.#apis[host] : undefined;
    const [, owner = '', name = '', ...others] = pathname.replace(/\/$/, '').split('/');
    const repository = name.replace(/\.git$/, '');
    if (api === undefined || others.length > 0 || !NAME.test(owner) || !NAME.test(repository)) return undefined;
    return `${api}/repos/${owner}/${repository}/statuses`;
  }
}
