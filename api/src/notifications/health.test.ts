import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { decide, firstRecord, type HealthRecord, type Observed } from './health.js';

const START = Date.parse('2026-01-05T10:00:00Z');
const at = (seconds: number) => new Date(START + seconds * 1000);

/** Observes the project at seconds, and returns the events with their seconds. */
function events(observations: [number, Observed['health'], Observed['quotas']?][], from: Partial<HealthRecord> = {}) {
  let record: HealthRecord = { ...firstRecord(at(0)), ...from };
  const found: string[] = [];
  for (const [seconds, health, quotas = {}] of observations) {
    const decision = decide(record, { health, quotas }, at(seconds));
    record = decision.record;
    for (const { type, quota } of decision.events) found.push(`${seconds} ${type}${quota ? ` ${quota}` : ''}`);
  }
  return found;
}

test('a project is reported healthy once', () => {
  assert.equal(
    events([
      [0, 'provisioning'],
      [1, 'healthy'],
      [2, 'healthy'],
      [3, 'paused'],
      [4, 'healthy'],
    ]),
    ['1 project.healthy'],
  );
});

test('a failure is reported if it lasts for a minute', () => {
  assert.equal(
    events([
      [1, 'healthy'],
      [10, 'failed'],
      [69, 'failed'],
      [70, 'failed'],
      [200, 'failed'],
    ]),
    ['1 project.healthy', '70 project.failing'],
  );
});

test('a short failure is not reported, and a second one within ten minutes is', () => {
  const short: [number, Observed['health']][] = [
    [1, 'healthy'],
    [10, 'failed'],
    [20, 'healthy'],
  ];
  assert.equal(events(short), ['1 project.healthy']);
  assert.equal(events([...short, [300, 'failed']]), ['1 project.healthy', '300 project.failing']);
  assert.equal(events([...short, [700, 'failed'], [710, 'healthy']]), ['1 project.healthy']);
});

test('a recovery is reported if it lasts for a minute', () => {
  const failing: [number, Observed['health']][] = [
    [1, 'healthy'],
    [10, 'failed'],
    [70, 'failed'],
  ];
  const reported = ['1 project.healthy', '70 project.failing'];
  assert.equal(events([...failing, [80, 'healthy'], [100, 'failed'], [110, 'healthy']]), reported);
  assert.equal(events([...failing, [80, 'healthy'], [140, 'healthy']]), [...reported, '140 project.recovered']);
});

test('a project that never was healthy is reported as failing', () => {
  assert.equal(
    events([
      [1, 'failed'],
      [61, 'failed'],
    ]),
    ['61 project.failing'],
  );
});

test('a project of an earlier release is recorded silently', () => {
  const unknown = { state: 'unknown' } as const;
  assert.equal(events([[1, 'healthy', { database: 'exceeded' }]], unknown), []);
  assert.equal(
    events(
      [
        [1, 'failed'],
        [100, 'failed'],
      ],
      unknown,
    ),
    [],
  );
  assert.equal(
    events(
      [
        [1, 'failed'],
        [100, 'healthy'],
        [160, 'healthy'],
      ],
      unknown,
    ),
    ['160 project.recovered'],
  );
});

test('a quota is reported at each level, and not again within a day', () => {
  const day = 86_400;
  assert.equal(
    events([
      [1, 'healthy'],
      [2, 'healthy', { storage: 'warning' }],
      [3, 'healthy', { storage: 'exceeded' }],
      [4, 'healthy', { storage: 'warning' }],
      [5, 'healthy', { storage: 'exceeded' }],
      [6, 'healthy'],
      [7, 'healthy', { storage: 'warning' }],
      [8, 'healthy'],
      [day + 10, 'healthy', { storage: 'warning' }],
    ]),
    ['1 project.healthy', '2 quota.warning storage', '3 quota.exceeded storage', `${day + 10} quota.warning storage`],
  );
});

test('a state that may end is looked at again after a minute', () => {
  const { record } = decide({ ...firstRecord(at(0)), state: 'healthy' }, { health: 'failed', quotas: {} }, at(5));
  assert.equal(record.lookAt, at(65));
  assert.is(decide(record, { health: 'failed', quotas: {} }, at(65)).record.lookAt, null);
});

test.run();
