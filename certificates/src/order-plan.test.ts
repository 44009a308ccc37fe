/** Tests which certificate is ordered next. */
import { processorTimeOf, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Attempts,
  DAY_MS,
  failedAgain,
  NEW_ORDERS_A_DAY,
  NEW_ORDERS_OF_ACCOUNT_A_DAY,
  nextOrder,
  ORDERS_A_DAY,
  type PlacedOrder,
  renewalAt,
  type WantedHost,
} from './order-plan.js';

const NOW = Date.parse('2026-11-26T12:00:00Z');
const PLATFORM: WantedHost = { host: 'slipway.example.com', account: undefined };
const hostOf = (name: string, account = 'ann@example.com'): WantedHost => ({
  host: `${name}.apps.example.net`,
  account,
});

interface Case {
  ends?: Record<string, number>;
  attempts?: Record<string, Partial<Attempts>>;
  placed?: PlacedOrder[];
}

/** `ends`: days from now to the end of a certificate of 90 days. */
const next = (wanted: WantedHost[], { ends = {}, attempts = {}, placed = [] }: Case = {}) =>
  nextOrder(
    wanted,
    {
      validity: (host) => {
        const days = ends[host];
        return days === undefined
          ? undefined
          : { notBefore: NOW + (days - 90) * DAY_MS, notAfter: NOW + days * DAY_MS };
      },
      attempts: (host) => attempts[host] && { failures: 1, nextAt: 0, problem: '', ...attempts[host] },
      placed,
    },
    NOW,
  )?.host;

const many = (count: number, order: Partial<PlacedOrder>): PlacedOrder[] =>
  Array.from({ length: count }, () => ({ at: NOW - 1_000, renewal: false, ...order }));

test('the first host without a certificate is ordered first', () => {
  assert.is(next([PLATFORM, hostOf('a')]), PLATFORM.host);
  assert.is(next([PLATFORM, hostOf('a'), hostOf('b')], { ends: { [PLATFORM.host]: 80 } }), hostOf('a').host);
  assert.is(next([PLATFORM], { ends: { [PLATFORM.host]: 80 } }), undefined);
});

test('renewals in the last third of a lifetime come before new hosts, the first to expire first', () => {
  assert.is(renewalAt({ notBefore: 0, notAfter: 90 }), 60);
  const [a, b, fresh] = [hostOf('a'), hostOf('b'), hostOf('new')];
  assert.is(next([fresh, a, b], { ends: { [a.host]: 29, [b.host]: 12 } }), b.host);
  assert.is(next([fresh, a, b], { ends: { [a.host]: 31, [b.host]: 31 } }), fresh.host);
  assert.is(next([a], { ends: { [a.host]: -3 } }), a.host);
});

test('a host whose order failed waits for its next attempt, and delays no other host', () => {
  const [a, b] = [hostOf('a'), hostOf('b')];
  assert.is(next([a, b], { attempts: { [a.host]: { nextAt: NOW + 1 } } }), b.host);
  assert.is(next([a, b], { attempts: { [a.host]: { nextAt: NOW } } }), a.host);
});

test('no certificate is ordered for a project before the platform has its own', () => {
  const refused = { [PLATFORM.host]: { nextAt: NOW + 1 } };
  assert.is(next([PLATFORM, hostOf('a')], { attempts: refused }), undefined);
  const ends = { [PLATFORM.host]: 20, [hostOf('b').host]: 20 };
  assert.is(next([PLATFORM, hostOf('a'), hostOf('b')], { attempts: refused, ends }), hostOf('b').host);
});

test('the delay after a failure doubles from 15 minutes to a day', () => {
  let attempts: Attempts | undefined;
  const minutes = Array.from({ length: 9 }, () => {
    attempts = failedAgain(attempts, 'refused', NOW, () => 1);
    return (attempts.nextAt - NOW) / 60_000;
  });
  assert.equal(minutes, [15, 30, 60, 120, 240, 480, 960, 1440, 1440]);
});

test('orders per day are limited for each account, for new hosts and for all hosts', () => {
  const [mine, other] = [hostOf('a'), hostOf('b', 'bob@example.com')];
  const full = many(NEW_ORDERS_OF_ACCOUNT_A_DAY, { account: 'ann@example.com' });
  assert.is(next([mine, other], { placed: full.slice(1) }), mine.host);
  assert.is(next([mine, other], { placed: full }), other.host);
  const ofOthers = many(NEW_ORDERS_A_DAY, { account: 'eve@example.com' });
  assert.is(next([mine], { placed: ofOthers }), undefined);
  assert.is(next([mine], { placed: ofOthers, ends: { [mine.host]: 3 } }), mine.host, 'a renewal has its own share');
  assert.is(next([mine, PLATFORM], { placed: ofOthers }), PLATFORM.host, 'the platform has no account');
  const all = many(ORDERS_A_DAY, { renewal: true });
  assert.is(next([PLATFORM], { placed: all }), undefined);
  assert.is(next([PLATFORM], { placed: all.map((order) => ({ ...order, at: NOW - DAY_MS })) }), PLATFORM.host);
});

test('ten thousand hosts that wait cost less than a turn', () => {
  const wanted = Array.from({ length: 10_000 }, (_, index) => hostOf(`project-${index}`));
  const placed = many(NEW_ORDERS_OF_ACCOUNT_A_DAY, { account: 'ann@example.com' });
  const ms = processorTimeOf(() => next(wanted, { placed }));
  assert.ok(ms <= TURN_MS, `${ms} ms`);
});

test.run();
