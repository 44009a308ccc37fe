import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { planRollout, type Standing } from './plan.js';

const test = suite('the plan of a rollout');

const old = (ref: string, state: Standing['state'] = 'well'): Standing => ({ ref, isCurrent: false, state });
const has = (ref: string, state: Standing['state'] = 'well'): Standing => ({ ref, isCurrent: true, state });

const cases: Record<string, { standings: Standing[]; batch: number; chosen: string[]; halt?: string }> = {
  'nobody waits: nobody is chosen': { standings: [has('a'), has('b')], batch: 2, chosen: [] },
  'the first batch is chosen by name': { standings: [old('c'), old('a'), old('b')], batch: 2, chosen: ['a', 'b'] },
  'projects in progress take places of the batch': {
    standings: [has('a', 'underway'), old('b'), old('c')],
    batch: 2,
    chosen: ['b'],
  },
  'a full batch admits no project': {
    standings: [has('a', 'underway'), has('b', 'underway'), old('c')],
    batch: 2,
    chosen: [],
  },
  'more projects in progress than a batch, as when it was made smaller, admit no other': {
    standings: [has('a', 'underway'), has('b', 'underway'), old('c')],
    batch: 1,
    chosen: [],
  },
  'a finished project makes room': { standings: [has('a'), has('b', 'underway'), old('c')], batch: 2, chosen: ['c'] },
  'a failure stops all projects, also those of the same batch': {
    standings: [has('a'), has('b', 'failed'), has('c', 'underway'), old('d')],
    batch: 5,
    chosen: [],
    halt: 'b',
  },
  'the first of several failures by name is reported': {
    standings: [has('z', 'failed'), has('b', 'failed'), old('d')],
    batch: 5,
    chosen: [],
    halt: 'b',
  },
  'a project that fails with the old images stops no other, and is last': {
    standings: [old('a', 'failed'), old('x'), old('y')],
    batch: 2,
    chosen: ['x', 'y'],
  },
  'a project in progress with the old images comes after healthy ones and before failed ones': {
    standings: [old('a', 'failed'), old('b', 'underway'), old('x')],
    batch: 2,
    chosen: ['x', 'b'],
  },
  'newer images are not tried first with a project that failed with the former ones': {
    standings: [old('a-failed-with-the-ones-before', 'failed'), old('b'), old('c')],
    batch: 1,
    chosen: ['b'],
  },
  'a project that fails with the new images stops no project that fails with the old ones': {
    standings: [has('a', 'failed'), old('b', 'failed'), has('c')],
    batch: 1,
    chosen: ['b'],
  },
};
for (const [what, { standings, batch, chosen, halt }] of Object.entries(cases)) {
  test(what, () => {
    const plan = planRollout(standings, batch);
    assert.equal([...plan.chosen], chosen);
    assert.is(plan.halt?.ref, halt);
  });
}

test('a rollout never has more projects in progress than a batch, and updates all projects', () => {
  let standings = Array.from({ length: 23 }, (_, index) => old(`p${String(index).padStart(2, '0')}`));
  for (let rounds = 0; standings.some(({ isCurrent, state }) => !isCurrent || state !== 'well'); rounds++) {
    assert.ok(rounds < 100);
    const { chosen } = planRollout(standings, 4);
    // Each chosen project writes by itself. All of them, one by one, see the same plan.
    for (const ref of chosen) {
      assert.ok(planRollout(standings, 4).chosen.has(ref));
      standings = standings.map((standing) => (standing.ref === ref ? has(ref, 'underway') : standing));
    }
    const underway = standings.filter(({ state }) => state === 'underway');
    assert.ok(underway.length <= 4, `${underway.length} under way`);
    const [done] = underway;
    standings = standings.map((standing) => (standing.ref === done?.ref ? has(standing.ref) : standing));
  }
});

test('planRollout counts projects by their state', () => {
  const { counts } = planRollout([has('a'), has('b', 'failed'), has('c', 'underway'), old('d'), old('e')], 3);
  assert.equal(counts, { current: 1, underway: 1, waiting: 2, failed: 1 });
});

test.run();
