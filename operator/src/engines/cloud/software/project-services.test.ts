import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PROJECT_SERVICES } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { projectFile, projectServices } from './project-services.js';
import { requestOf } from './request.testing.js';
import { SERVICES } from './state/service.js';
import { hashOf, stateOf } from './state/state.js';

const services = projectServices({ trustedProxies: ['192.0.2.1', '2001:db8::/32'] });
/** This file is in `operator/dist/engines/cloud/software`. */
const INSTALLATION = fileURLToPath(new URL('../../../../../', import.meta.url));
const RELEASE = '/opt/slipway/current/';

test('each unit runs one service of the data plane, at its own socket', () => {
  const names = SERVICES.map((unit) => services[unit].environment.SLIPWAY_MACHINE_SERVICE);
  assert.equal([...names].sort(), [...PROJECT_SERVICES].sort());
  for (const unit of SERVICES) {
    const { command, environment } = services[unit];
    const main = command.at(-1)?.slice(RELEASE.length) as string;
    assert.ok(existsSync(INSTALLATION + main), main);
    assert.is(environment.SLIPWAY_LISTEN, `/run/slipway/${unit}/http.sock`);
    assert.is(environment.SLIPWAY_TRUSTED_PROXIES, '192.0.2.1,2001:db8::/32');
  }
});

test('only storage and functions have a folder, and functions send requests to nginx at loopback', () => {
  const named = (name: string) => SERVICES.filter((unit) => services[unit].environment[name] !== undefined);
  assert.equal(named('SLIPWAY_STORAGE_DIR'), ['storage']);
  assert.equal(named('SLIPWAY_FUNCTIONS_DIR'), ['functions']);
  const { SLIPWAY_DATAPLANE_URL: url } = services.functions.environment;
  const nginx = stateOf(requestOf({ services })).files.find(({ path }) => path.endsWith('/nginx.conf'));
  assert.ok(nginx?.content.includes(`listen ${new URL(url as string).host};`));
});

test('a change of the document changes the state, but no unit restarts', () => {
  const [before, after] = ['{}', '{"revision":"2"}'].map((text) =>
    stateOf(requestOf({ services, files: [projectFile(text)] })),
  ) as [ReturnType<typeof stateOf>, ReturnType<typeof stateOf>];
  assert.is.not(hashOf(before), hashOf(after));
  assert.equal(before.units, after.units);
  const { path } = projectFile('{}');
  assert.ok(after.units.every(({ files }) => !files.includes(path)));
});

test('only root may write the document, and only the services may read it', () => {
  const { mode, owner } = projectFile('{}');
  assert.equal([mode, owner], [0o640, 'root:slipway-project']);
  const accounts = stateOf(requestOf({ services })).files.find(({ path }) => path === '/etc/sysusers.d/slipway.conf');
  const members = accounts?.content.match(/^m \S+ slipway-project$/gm);
  assert.equal(
    members,
    SERVICES.map((unit) => `m slipway-${unit} slipway-project`),
  );
});

test.run();
