import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestApi } from '../testing.js';
import { ALL_SCOPES } from './scopes.js';

const api = await startTestApi();
test.after(() => api.close());

interface Operation {
  operationId: string;
  description?: string;
  security?: object[];
  responses: Record<string, { content?: unknown }>;
}
const document = (await api.call('GET', '/openapi.json')).body;
const operations = Object.entries(document.paths as Record<string, Record<string, Operation>>).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route: `${method.toUpperCase()} ${path}`, ...operation })),
);
const operation = (route: string) => operations.find((other) => other.route === route);
const guide = await readFile(new URL('../../../docs/api.md', import.meta.url), 'utf8');

test('the OpenAPI document lists its own route, which allows only GET', async () => {
  const own = operation('GET /openapi.json');
  assert.equal(own?.security, []);
  assert.ok(own?.responses[200]);
  const wrong = await api.call('POST', '/openapi.json', { json: {} });
  assert.equal([wrong.status, wrong.headers.allow], [405, 'GET']);
});

test('the MCP route needs the key of the scheme `apikey`, and may respond without content', () => {
  assert.equal(document.components.securitySchemes.apikey.name, 'apikey');
  assert.equal(document.components.securitySchemes.apikey.in, 'header');
  const mcp = operation('POST /projects/{id}/mcp');
  assert.equal(mcp?.security, [{ apikey: [] }]);
  assert.ok(mcp?.responses[202]);
  assert.is(mcp.responses[202].content, undefined);
});

test('the example of an error has the code that the route returns', () => {
  const kindOf = (route: string, status: number) => {
    const content = operation(route)?.responses[status]?.content as Record<string, { example: { code: string } }>;
    return content['application/problem+json']?.example.code;
  };
  assert.is(kindOf('POST /auth/register', 409), 'email_taken');
  assert.is(kindOf('POST /projects', 409), 'name_taken');
  const named = operations.flatMap(({ route, responses }) => (responses[409] ? [[route, kindOf(route, 409)]] : []));
  const byDefault = named.filter(([, kind]) => kind === 'project_deleting').map(([route]) => route);
  const only409 = [
    'POST /projects/{id}/rotate',
    'POST /projects/{id}/suspend',
    'POST /projects/{id}/reprovision',
    'POST /projects/{id}/deploy-key',
    'POST /projects/{id}/deploy',
    'POST /projects/{id}/compute/deploy',
    'POST /projects/{id}/compute/webhook',
    'POST /projects/{id}/builds/{buildId}/redeploy',
    'DELETE /projects/{id}/build-cache',
  ];
  assert.equal(byDefault.toSorted(), only409.toSorted(), 'the routes whose only 409 this is');
});

test('every operation has an id of its own', () => {
  const ids = operations.map(({ operationId }) => operationId);
  assert.equal(ids.sort(), [...new Set(ids)].sort());
});

test('every operation names a defined security scheme', () => {
  const schemes = Object.keys(document.components.securitySchemes);
  for (const { route, security } of operations) {
    assert.ok(security, route);
    for (const name of security.flatMap(Object.keys)) assert.ok(schemes.includes(name), `${route}: ${name}`);
  }
});

test('docs/api.md has every scope, with the routes that need it', () => {
  const rows = [...guide.matchAll(/^\| `([a-z]+:[a-z]+)` \| (.*) \|$/gm)];
  assert.equal(
    rows.map(([, scope]) => scope),
    ALL_SCOPES,
  );
  for (const [, scope, allows = ''] of rows) {
    const needing = operations.filter(({ description = '' }) => description.endsWith(`the scope \`${scope}\`.`));
    const named = [...allows.matchAll(/`([A-Z]+ \/[^`]*)`/g)].map(([, route]) => route);
    assert.equal(named.sort(), needing.map(({ route }) => route).sort(), scope);
  }
});

test('docs/api.md names every route that takes no bearer token', () => {
  const [text = ''] = /on every route but[^.]*(?:\.json[^.]*)*\./.exec(guide) ?? [];
  for (const { route, security = [] } of operations) {
    const path = route.replace(/^\w+ /, '');
    const takesNone = !security.some((scheme) => 'bearer' in scheme);
    assert.is(text.includes(`\`${path}\``) || text.includes(`\`${route}\``), takesNone, route);
  }
});

test.run();
