/** The chaos suite on one machine: our API server, one machine's engine, a Postgres of its own. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startTestApiServer, type TestApiServer } from '@slipway/apiserver/testing.js';
import { customResourceDefinitions } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { test } from 'uvu';
import { SPARES } from '../engines/machine/databases.js';
import { adminUrl, clientOf } from '../testing.js';
import { chaosSuite, type Stage } from './chaos.suite.js';
import { expectedInPostgres, postgresInventory } from './postgres-inventory.testing.js';

let stage: Stage;
let apiserver: TestApiServer;
let postgres: TestPostgres;
// Replaces the data plane: this test does not cover whether services answer.
const dataplane = createServer((_, response) => response.end('{}'));

test.before(async () => {
  [apiserver, postgres] = await Promise.all([
    startTestApiServer({ crds: customResourceDefinitions }),
    startTestPostgres(),
  ]);
  await new Promise<void>((resolve) => dataplane.listen(0, '127.0.0.1', resolve));
  const client = await clientOf(apiserver.kubeconfig);
  stage = {
    kubeconfig: apiserver.kubeconfig,
    client,
    specs: [{}],
    operatorEnvironment: {
      SLIPWAY_PUBLIC_URL: 'http://localhost:4000',
      SLIPWAY_ADMIN_DATABASE_URL: adminUrl(postgres),
      SLIPWAY_DATABASE_PUBLIC_ADDRESS: `127.0.0.1:${postgres.port}`,
      SLIPWAY_DATAPLANE_URL: `http://127.0.0.1:${(dataplane.address() as AddressInfo).port}`,
    },
    restartApiServer: () => apiserver.restart(),
    inventory: async () => ({ ...(await objects(client)), ...(await postgresInventory(postgres.admin())) }),
    expected: (projects) => {
      const refs = projects.map(({ metadata }) => metadata.name);
      return { ...expectedObjects(refs), ...expectedInPostgres(refs, SPARES) };
    },
  };
});

test.after(async () => {
  await stage.client.close();
  dataplane.closeAllConnections();
  dataplane.close();
  await apiserver.close();
  await postgres.close();
});

/** Returns the objects with a project's label, by kind. */
async function objects(client: KubeClient) {
  const query = { labelSelector: LABEL_PROJECT };
  const list = async (path: string) => (await client.get<{ items: KubeObject[] }>(path, query)).items;
  const [namespaces, secrets] = await Promise.all(['/api/v1/namespaces', '/api/v1/secrets'].map(list));
  const nameOf = ({ metadata: { namespace, name } }: KubeObject) => (namespace ? `${namespace}/${name}` : name);
  return { namespaces: namespaces?.map(nameOf).sort() ?? [], secrets: secrets?.map(nameOf).sort() ?? [] };
}

const expectedObjects = (refs: string[]) => ({
  namespaces: refs.map(namespaceOf).sort(),
  secrets: refs
    .flatMap((ref) => [SECRETS.keys.name, SECRETS.database.name].map((name) => `${namespaceOf(ref)}/${name}`))
    .sort(),
});

chaosSuite(test, () => stage);
test.run();
