/** Tests the reading of units, with the output of systemd 252, and the arguments of a restart. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseUnits, readUnits, restartUnit } from './units.js';

const OUTPUT = `MainPID=1161
NRestarts=2
MemoryCurrent=61440000
Id=slipway-auth.service
LoadState=loaded
ActiveState=active
StateChangeTimestamp=@1795967941

MainPID=930
NRestarts=0
MemoryCurrent=[not set]
Id=slipway-postgrest.service
LoadState=loaded
ActiveState=activating
StateChangeTimestamp=@1795967932

MainPID=0
NRestarts=0
MemoryCurrent=18446744073709551615
Id=slipway-nginx.service
LoadState=loaded
ActiveState=failed
StateChangeTimestamp=@1795967937

MainPID=0
NRestarts=0
MemoryCurrent=[not set]
Id=slipway-storage.service
LoadState=not-found
ActiveState=inactive
StateChangeTimestamp=

/var/lib/slipway/machine/restarts/auth:77 1795967942 
/var/lib/slipway/machine/restarts/nginx:1 1795967938 Job for slipway-nginx.service failed: see "systemctl status".
/var/lib/slipway/machine/restarts/postgres:1 1795967938 
/var/lib/slipway/machine/restarts/realtime:no number
`;
const { signal } = new AbortController();

test('the state, the process and the memory of each unit are read, and a unit that is not there is left out', () => {
  assert.equal(parseUnits(OUTPUT).units, {
    auth: {
      status: 'running',
      since: '2026-11-29T15:59:01.000Z',
      restarts: 2,
      mainPid: 1161,
      memoryBytes: 61_440_000,
    },
    postgrest: { status: 'starting', since: '2026-11-29T15:58:52.000Z', restarts: 0, mainPid: 930 },
    nginx: { status: 'failed', since: '2026-11-29T15:58:57.000Z', restarts: 0 },
  });
});

test('the outcome of the last restart of a unit is read, and other records are ignored', () => {
  assert.equal(parseUnits(OUTPUT).restarts, {
    auth: { number: 77, at: '2026-11-29T15:59:02.000Z' },
    nginx: {
      number: 1,
      at: '2026-11-29T15:58:58.000Z',
      error: 'Job for slipway-nginx.service failed: see "systemctl status".',
    },
  });
});

test('output that is cut, empty or from other units is no error', () => {
  for (const text of ['', '\n\n\n', 'Id=sshd.service\nLoadState=loaded\nActiveState=active', OUTPUT.slice(0, 90)]) {
    const { units, restarts } = parseUnits(text);
    assert.equal([Object.keys(units).filter((name) => name !== 'auth'), restarts], [[], {}]);
  }
});

test('a look is one command, and a restart passes the unit and the number as arguments', async () => {
  const commands: (readonly string[])[] = [];
  const machine = {
    run: async (args: readonly string[]) => {
      commands.push(args);
      return { exitCode: 0, stdout: OUTPUT, stderr: '' };
    },
  };
  await readUnits(machine, signal);
  await restartUnit(machine, { unit: 'auth', number: 7 }, signal);
  assert.is(commands.length, 2);
  assert.not.match((commands[0] as string[]).join(' '), /restart |start |stop /);
  assert.equal(commands[1]?.slice(3), ['sh', 'auth', '7']);
});

test.run();
