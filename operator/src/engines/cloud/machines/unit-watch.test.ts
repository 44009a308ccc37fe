/** Tests the watch of a machine's units, on a machine that only remembers its records. */
import type { RestartableUnit } from '@slipway/crds';
import { until } from '@slipway/testing';
import pino from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { MachineRequests } from '../../../capabilities/index.js';
import { SshError } from '../ssh/ssh-error.js';
import { UnitWatch } from './unit-watch.js';
import type { CommandRunner } from './units.js';

const TIMES = { look: 30, connection: 10, patience: 60, fresh: 150, observed: 0 };
const UNITS = ['auth', 'storage', 'postgres'];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A machine in memory. */
class FakeMachine implements CommandRunner {
  readonly records = new Map<string, string>();
  readonly pids = new Map(UNITS.map((name, index) => [name, 100 + index]));
  readonly restarted: string[] = [];
  looks = 0;
  memory = 50_000_000;
  units = UNITS;
  /** The error of a restart on the machine. */
  refusal = '';
  problem: Error | undefined;
  /** The connection ends after the restart, before its response. */
  isCut = false;

  run: CommandRunner['run'] = async (args) => {
    if (this.problem) throw this.problem;
    const [, , , , unit, number] = args as readonly string[];
    if (unit === undefined) return this.#output();
    this.restarted.push(`${unit} ${number}`);
    this.records.set(unit, `${number} 1795967942 ${this.refusal}`);
    if (this.refusal === '') this.pids.set(unit, 1000 + this.restarted.length);
    if (this.isCut) throw new SshError('closed', 'The connection ended.');
    return { exitCode: 0, stdout: '', stderr: '' };
  };

  #output() {
    this.looks += 1;
    const shown = this.units.map(
      (name) =>
        `Id=slipway-${name}.service\nLoadState=loaded\nActiveState=active\nMainPID=${this.pids.get(name)}\n` +
        `MemoryCurrent=${this.memory}`,
    );
    const records = [...this.records].map(([name, text]) => `/var/lib/slipway/machine/restarts/${name}:${text}`);
    return { exitCode: 0, stdout: `${shown.join('\n\n')}\n\n${records.join('\n')}\n`, stderr: '' };
  }
}

const projectOf = (restarts: MachineRequests['restarts'] = {}, suspended = false) => ({
  ref: 'own',
  suspended,
  machine: { restarts },
});

function watch(machine: FakeMachine, project = projectOf()) {
  const seen = { changes: 0, session: machine as CommandRunner | undefined };
  const units = new UnitWatch(project, {
    session: () => seen.session,
    problem: () => 'waiting for the machine to boot',
    onChange: () => {
      seen.changes += 1;
    },
    log: pino({ level: 'silent' }),
    times: TIMES,
  });
  const answered = (unit: RestartableUnit, number: number) =>
    until(() => {
      const restart = units.view.restarts?.[unit];
      return restart?.number === number ? restart : undefined;
    }, `${unit} ${number}`);
  return { units, seen, answered };
}

async function withWatch(
  machine: FakeMachine,
  work: (watched: ReturnType<typeof watch>) => Promise<void>,
  project = projectOf(),
) {
  const watched = watch(machine, project);
  try {
    await work(watched);
  } finally {
    await watched.units.close();
  }
}

test('a look restarts nothing, and reports a change once', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async ({ units, seen }) => {
    await until(() => machine.looks > 4, 'several looks');
    assert.equal([machine.restarted, seen.changes], [[], 1]);
    assert.is(units.view.units?.auth?.mainPid, 100);
    machine.pids.set('auth', 200);
    await until(() => units.view.units?.auth?.mainPid === 200, 'the change');
    assert.is(seen.changes, 2);
  });
});

test('memory is reported in steps of 10 MB', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async ({ units, seen }) => {
    await until(() => units.view.units, 'the first look');
    machine.memory += 9_999_999;
    const { looks } = machine;
    await until(() => machine.looks > looks + 2, 'further looks');
    assert.equal([units.view.units?.auth?.memoryBytes, seen.changes], [50_000_000, 1]);
    machine.memory += 1;
    await until(() => units.view.units?.auth?.memoryBytes === 60_000_000, 'the step');
    assert.is(seen.changes, 2);
  });
});

test('a changed number restarts its unit once, and each further number once more', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async ({ units, answered }) => {
    units.want(projectOf({ auth: 1 }));
    await answered('auth', 1);
    units.want(projectOf({ auth: 2, storage: 5 }));
    await answered('auth', 2);
    await answered('storage', 5);
    const { looks } = machine;
    await until(() => machine.looks > looks + 3, 'further looks');
    assert.equal(machine.restarted, ['auth 1', 'auth 2', 'storage 5']);
    assert.is(units.view.units?.storage?.mainPid, 1003, 'the new process is reported with the restart');
  });
});

test('the next operator restarts only units whose restart the machine did not record', async () => {
  const machine = new FakeMachine();
  machine.records.set('auth', '3 1795967942 ');
  await withWatch(
    machine,
    async ({ answered }) => {
      await answered('storage', 1);
      await answered('auth', 3);
      assert.equal(machine.restarted, ['storage 1']);
    },
    projectOf({ auth: 3, storage: 1 }),
  );
});

test('a restart whose connection ended is not repeated if the machine recorded it', async () => {
  const machine = new FakeMachine();
  machine.isCut = true;
  await withWatch(machine, async ({ units }) => {
    units.want(projectOf({ auth: 1 }));
    await until(() => units.view.restarts?.auth?.error === undefined && units.view.restarts?.auth, 'no error');
    assert.equal(machine.restarted, ['auth 1']);
  });
});

test('a restart that the machine refuses is reported, and not tried again', async () => {
  const machine = new FakeMachine();
  machine.refusal = 'Job for slipway-auth.service failed.';
  await withWatch(machine, async ({ units, answered }) => {
    units.want(projectOf({ auth: 1 }));
    assert.is((await answered('auth', 1)).error, 'Job for slipway-auth.service failed.');
    const { looks } = machine;
    await until(() => machine.looks > looks + 3, 'further looks');
    assert.equal(machine.restarted, ['auth 1']);
  });
});

test('a restart fails while the machine does not respond, and is done when it responds', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async ({ units, answered }) => {
    await until(() => units.view.units, 'the first look');
    machine.problem = new SshError('timeout', 'sh did not end within 15000 ms.');
    units.want(projectOf({ auth: 1 }));
    assert.is((await answered('auth', 1)).error, 'sh did not end within 15000 ms.');
    await until(() => units.view.units?.auth?.status === 'unknown', 'the state is unknown');
    machine.problem = undefined;
    await until(() => units.view.restarts?.auth?.error === undefined, 'the restart is done');
    assert.equal(machine.restarted, ['auth 1']);
    assert.is(units.view.units?.auth?.status, 'running');
  });
});

test('a restart fails with the reason if there is no connection for long, and not before', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async ({ units, seen, answered }) => {
    await until(() => units.view.units, 'the first look');
    seen.session = undefined;
    units.want(projectOf({ auth: 1 }));
    await pause(TIMES.patience / 2);
    assert.is(units.view.restarts?.auth, undefined);
    assert.is((await answered('auth', 1)).error, 'waiting for the machine to boot');
    seen.session = machine;
    await until(() => machine.restarted.length > 0, 'the restart is done');
  });
});

test('a unit that the machine does not have yet is restarted once it has it', async () => {
  const machine = new FakeMachine();
  machine.units = ['postgres'];
  await withWatch(
    machine,
    async ({ answered }) => {
      await until(() => machine.looks > 3, 'several looks');
      assert.equal(machine.restarted, []);
      machine.units = UNITS;
      await answered('auth', 1);
    },
    projectOf({ auth: 1 }),
  );
});

test('the units of a suspended project are stopped, and none is restarted', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async ({ units }) => {
    await until(() => units.view.units, 'the first look');
    units.want(projectOf({ auth: 1 }, true));
    await until(() => units.view.units?.auth?.status === 'stopped', 'the unit is stopped');
    assert.equal(machine.restarted, []);
  });
});

test('the number 0 alone requests no restart', async () => {
  const machine = new FakeMachine();
  await withWatch(machine, async () => void (await until(() => machine.looks > 3, 'looks')), projectOf({ auth: 0 }));
  assert.equal(machine.restarted, []);
});

test.run();
