/**
 * Rejects requests and connections of the programs to other hosts, outside of program/src/outbound.ts, which guards
 * connections to hosts that a tenant names. Places that connect to trusted hosts are listed here, with the source of
 * the host name.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, PROGRAMS, root, sourcesIn } from './sources.js';

const ELSEWHERE = /^apiserver\/src\/conformance\/|reference-server\.ts$|faults|chaos/;

const ALLOWED: Record<string, string> = {
  'program/src/outbound.ts': 'the guard',
  'certificates/src/acme-authority.ts': 'the authority of certificates, which the settings name',
  'kaniko-build-wrapper/src/egress/proxy.ts': 'requests over connections that the guard made',
  'kaniko-build-wrapper/src/credentials.ts': 'our API, or the proxy in front of it, which the settings name',
  'kaniko-build-wrapper/src/pod/forwarder.ts': 'our egress proxy, which the operator names',
  'kubernetes/src/client.ts': 'the Kubernetes API, which the kubeconfig names',
  'api/src/accounts/link-page.ts': 'the script of a page, which asks this API from the browser',
  'api/src/auth-admin/auth-admin.ts': 'our data plane, which the settings name',
  'api/src/http/plain-get.ts': 'our data plane, which the settings name, or a socket of the operator',
  'api/src/sql/query-connection.ts': 'a database of ours, which the operator names',
  'dataplane/src/services/hosting/forms/entry-store.ts': 'our API, which the settings name',
  'dataplane/src/sql/bounded-socket.ts': 'a database of ours, which the operator names',
  'dataplane/src/services/functions/isolate.ts': 'the socket of an isolate, whose path we make',
  'dataplane/src/standalone/probes.ts': 'its own server',
  'dataplane/src/upstreams/forward-upgrade.ts':
    'our pods, which the settings name, and the containers of apps, which the operator names',
  'dataplane/src/upstreams/pinned-connection.ts': 'the machines of projects, whose certificates the operator names',
  'dataplane/src/upstreams/upstream-client.ts':
    "our pods, and the services in a project's namespace and the containers of apps, which the operator names",
  'operator/src/build-egress/server.ts': 'our API and our pods of sites, which the settings name',
  'operator/src/engines/cloud/hetzner/client.ts': 'the API of the cloud provider, which the settings name',
  'operator/src/engines/cloud/machines/ssh-keys.ts': 'nothing: it makes keys',
  'operator/src/engines/cloud/machines/service-probe.ts': 'a machine, whose address the cloud provider gave it',
  'operator/src/engines/cloud/ssh/connection.ts': 'a machine, whose address the cloud provider gave it',
  'operator/src/engines/containers/container-health.ts': 'a container, whose address we gave it',
  'operator/src/engines/containers/dns-forwarder.ts': 'the resolvers of this machine, which its own settings name',
  'operator/src/engines/function-control.ts': 'our data plane, which the settings name',
  'operator/src/engines/pause-watch.ts': 'our data plane, which the settings name',
  'operator/src/engines/service-probe.ts': 'our data plane, which the settings name',
  'sites/src/content-store/client.ts': 'our pods of sites, or the proxy in front of them, which the settings name',
  'operator/src/engines/site-probe.ts': 'our data plane, which the settings name',
};

const CONNECTS = '(?<!type )\\b(?:request|get|connect|createConnection|Socket)\\b';
const SIGNS = [
  /(?<![.\w])(?:globalThis\.)?fetch\((?!\w+: )/,
  /^import (?!type)[^;]*from '(?:undici|ssh2)'/m,
  new RegExp(`^import (?!type)\\{[^;]*${CONNECTS}[^;]*\\} from 'node:(?:https?|http2|net|tls|dgram)'`, 'm'),
  /\b(?:https?|http2|net|tls)\.(?:request|get|connect|createConnection)\(/,
];

/** Comments may name these functions, and methods may be named fetch. */
function reachesOut(source: string): boolean {
  const code = source.replaceAll(/^\s*(\/\*\*|\*|\/\/).*$/gm, '');
  return SIGNS.some((sign) => sign.test(code));
}

test('each outbound connection passes the guard, or its host comes from a trusted source', () => {
  const places = PROGRAMS.flatMap(sourcesIn)
    .filter((file) => !FOR_TESTS.test(file) && !ELSEWHERE.test(file))
    .filter((file) => reachesOut(readFileSync(path.join(root, file), 'utf8')));
  assert.equal(places.sort(), Object.keys(ALLOWED).sort());
});

test('the search finds an outbound connection in every notation', () => {
  for (const text of [
    'await fetch(url)',
    'return globalThis.fetch(url, options);',
    "import { Agent, fetch } from 'undici';",
    "import { Client } from 'ssh2';",
    "import { createServer, request as ask } from 'node:https';",
    "import { isIP, Socket } from 'node:net';",
    'const socket = tls.connect(options);',
  ])
    assert.ok(reachesOut(text), text);
  for (const text of [
    '// by fetch(url)',
    'outbound.fetch(url)',
    "import type { Dispatcher } from 'undici';",
    "import type { ClientChannel } from 'ssh2';",
    "import { createServer, type RequestOptions } from 'node:http';",
    "import { type Socket } from 'node:net';",
    'fetch(ref: string): Promise<void> {',
  ])
    assert.not(reachesOut(text), text);
});

test.run();
