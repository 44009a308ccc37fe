/**
 * Rejects a second token bucket, concurrency limit, log throttle or backoff outside of program/, by its name or by its
 * arithmetic. Code that looks like one and is something else is listed here, with the reason.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PRODUCT, root, sourcesIn } from './sources.js';

const FOR_TESTS = /(\.test|\.suite|(^|[./])testing|faults|chaos|conformance)(\.ts|\/)/;

const either = (...signs: RegExp[]) => new RegExp(signs.map(({ source }) => source).join('|'));

const SIGNS: Record<string, RegExp> = {
  'TokenBucket, LogThrottle, ConcurrencyLimit or delayOf of program':
    /\bclass\s+\w*(TokenBucket|RateLimit|RateLimiter|Throttle|Backoff|ConcurrencyLimit|Semaphore)s?\b/,
  'delayOf or LogThrottle of program': /\b(function\s+|const\s+)\w*(backoff|throttle)\w*(\(|\s*=\s*(async\s*)?\()/i,
  // (now - at) / 1000 * perSecond
  'TokenBucket of program': /(\bnow|performance\.now\(\)) - [\w.#]+\) \/ 1_?000\) \*/,
  // 2 ** attempt; Math.min(delay * 2, longest)
  'delayOf of program': /\b2 \*\* *[a-z(]|Math\.min\([^()]*\* 2\b[^()]*\b(most|max|longest)/i,
  // running >= AT_ONCE; new Promise((resolve) => waiting.push(resolve))
  'ConcurrencyLimit of program': either(
    /\b#?(running|underWay|inFlight|active)(\.size|\.length)? (>=|<) [^0]/,
    /new Promise(<\w+>)?\(\(\w+\) => [\w.#]+\.push\(/,
  ),
};

const ALLOWED: Record<string, string> = {
  'dataplane/src/gateway/rate-limit.ts': 'a window, whose head says why',
  'dataplane/src/services/functions/function.ts': 'calls in an isolate, whose number also says when it may end',
  'dataplane/src/services/functions/index.ts': 'isolates, of which an idle one is ended for the next',
  'apiserver/src/controllers/work.ts': 'keys that are worked on, each by one worker: a work queue',
  'apiserver/src/http/protobuf.ts': 'a number of variable length',
};

const signOf = (source: string) =>
  Object.entries(SIGNS).find(([, sign]) => sign.test(source.replaceAll(/^\s*(\/\*\*|\*|\/\/).*$/gm, '')))?.[0];

test('a token bucket, a concurrency limit, a log throttle and a backoff are defined only in program', () => {
  const duplicates = PRODUCT.filter((folder) => folder !== 'program')
    .flatMap(sourcesIn)
    .filter((file) => !FOR_TESTS.test(file))
    .map((file) => ({ file, use: signOf(readFileSync(path.join(root, file), 'utf8')) }))
    .filter(({ use }) => use !== undefined);
  assert.equal(
    duplicates.filter(({ file }) => !(file in ALLOWED)),
    [],
    'use what `use` names, or say in ALLOWED what it is in place of that',
  );
  assert.equal(duplicates.map(({ file }) => file).sort(), Object.keys(ALLOWED).sort());
});

test('the search finds a second definition in every notation', () => {
  for (const text of [
    'export class RateLimit {',
    'class TokenBuckets {',
    'function backoffMs(failures: number) {',
    'const loginThrottle = (log: Logger) => {',
    'const refill = ((now - this.refilledAt) / 1000) * this.perSecond;',
    'Math.min(MOST, tokens + ((performance.now() - at) / 1_000) * RATE)',
    'FIRST_MS * 2 ** (failures - 1)',
    'pause = Math.min(pause * 2, LONGEST_PAUSE_MS)',
    'if (this.#running.size >= AT_ONCE) return;',
    'if (this.running < most) this.running += 1;',
    'await new Promise<void>((resolve) => this.#waiting.push(resolve));',
  ])
    assert.ok(signOf(text), text);
  for (const text of [
    'const BACKOFF = { firstMs: 250, maxMs: 5_000 };',
    'export class RequestLimits {',
    '// as a class RateLimit had it',
    'const MIB = 2 ** 20;',
    'if (isolate.active > 0) return;',
    'const limit = new ConcurrencyLimit(BOUNDS);',
    'const seconds = (performance.now() - begun) / 1000;',
  ])
    assert.not(signOf(text), text);
});

test.run();
