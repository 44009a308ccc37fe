/** Tests which hosts of a machine need a certificate. */
import type { Project } from '@slipway/crds';
import { processorTimeOf, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type KnownHosts, wantedHosts } from './certificates.js';

const project = (name: string, status: Project['status'] = { url: `https://${name}.apps.example.net` }): Project =>
  ({ metadata: { name }, spec: { owner: ' Ann@Example.com' }, status }) as Project;

const PLACES = { publicUrl: 'https://slipway.example.com', projectsDomain: 'apps.example.net:8443' };
const known = (): KnownHosts => new WeakMap();
const PLATFORM = { host: 'slipway.example.com', account: undefined };

test('the hosts are the platform’s, then each ready project’s, with its previews and its account', () => {
  const url = 'https://abc--blog.apps.example.net';
  const blog = project('blog', { url: 'x', previews: [{ branch: 'b', url, build: 'build-1' }] });
  assert.equal(wantedHosts(PLACES, [project('shop'), project('new', { message: 'validating' }), blog], known()), [
    PLATFORM,
    { host: 'shop.apps.example.net', account: 'ann@example.com' },
    { host: 'blog.apps.example.net', account: 'ann@example.com' },
    { host: 'abc--blog.apps.example.net', account: 'ann@example.com' },
  ]);
});

test('a project at a path of the platform needs no certificate of its own', () => {
  assert.equal(wantedHosts({ publicUrl: PLACES.publicUrl }, [project('shop')], known()), [PLATFORM]);
});

test('a preview without a possible certificate holds up no other host', () => {
  const previews = ['', 'no url', `https://${'x'.repeat(64)}--blog.apps.example.net`, 'https://a_b.example.net'].map(
    (url) => ({ branch: 'b', url, build: 'build-1' }),
  );
  const blog = project('blog', { url: 'x', previews });
  assert.equal(
    wantedHosts(PLACES, [blog], known()).map(({ host }) => host),
    [PLATFORM.host, 'blog.apps.example.net'],
  );
});

test('the hosts of ten thousand projects take less than a turn at each look', () => {
  const projects = Array.from({ length: 10_000 }, (_, index) => project(`project-${index}`));
  const hosts = known();
  const ms = processorTimeOf(() => wantedHosts(PLACES, projects, hosts));
  assert.ok(ms <= TURN_MS, `${ms} ms`);
  const renamed = project('project-0', { url: 'x', previews: [] });
  assert.is(wantedHosts(PLACES, [renamed], hosts).length, 2);
});

test.run();
