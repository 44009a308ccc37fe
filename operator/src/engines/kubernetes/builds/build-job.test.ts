import {
  ANNOTATION_SITE,
  BUILD_LIMITS,
  DEPLOYMENT_LIMITS,
  LABEL_BUILD_OF,
  PREVIEW_LIMITS,
  readSite,
} from '@slipway/installation';
import { previewName } from '@slipway/sites';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BuildOrder } from '../../../capabilities/index.js';
import { buildJob, buildSecret, type JobPlace, kanikoArguments } from './build-job.js';

const ORDER: BuildOrder = {
  ref: 'shop',
  name: 'build-7',
  site: 'shop',
  unless: undefined,
  repoUrl: 'https://git.example.com/ann/shop.git',
  revision: '$(id)',
  branch: 'next',
  submodules: false,
  ticket: 'the-ticket-of-the-build',
  settings: { installCommand: undefined, buildCommand: '`id`', outputDir: undefined, rootDir: undefined },
  plan: 'free',
  env: { SECRET: 'a-variable-of-the-owner' },
  limits: BUILD_LIMITS.free,
};
const site = readSite('publicUrl: https://slipway.example.com\nbuilds: { image: slipway/builder:1, atOnce: 3 }\n');
const PLACE: JobPlace = {
  name: 'b-1',
  site,
  egressUrl: 'http://10.96.0.7:3128',
  publishToken: 'the-token-for-the-store',
  certificates: undefined,
  hasUserNamespaces: true,
};

interface Container {
  name: string;
  image: string;
  args: string[];
  securityContext: Record<string, unknown> & { capabilities: object };
  resources: { limits: Record<string, string> };
  volumeMounts: { name: string; mountPath: string }[];
}
interface JobSpec {
  spec: {
    backoffLimit: number;
    activeDeadlineSeconds: number;
    template: {
      metadata: { labels: Record<string, string> };
      spec: Record<string, unknown> & {
        initContainers: Container[];
        containers: Container[];
        volumes: { name: string; secret?: { items: { key: string }[] } }[];
      };
    };
  };
}
const jobOf = (place = PLACE, order = ORDER) => (buildJob(order, place) as unknown as JobSpec).spec;
const podOf = (place?: JobPlace) => jobOf(place).template.spec;
const containersOf = (place?: JobPlace) => [...podOf(place).initContainers, ...podOf(place).containers];
const named = (name: string) => containersOf().find((container) => container.name === name) as Container;

test('a Job runs its containers one after another: clone, then Kaniko, then the publication', () => {
  assert.equal(
    containersOf().map(({ name }) => name),
    ['clone', 'build', 'publish'],
  );
  assert.equal(
    containersOf().map(({ image }) => image),
    ['slipway/builder:1', site.builds.kaniko, 'slipway/builder:1'],
  );
});

test('the container of Kaniko has no ticket, no token and no mounted Secret', () => {
  const secrets = (name: string) => {
    const mounted = named(name).volumeMounts.map((mount) => mount.name);
    return podOf()
      .volumes.filter((volume) => mounted.includes(volume.name))
      .flatMap(({ secret }) => secret?.items.map(({ key }) => key) ?? []);
  };
  assert.equal([secrets('clone'), secrets('build'), secrets('publish')], [['clone'], [], ['publish']]);
  const { data } = buildSecret(ORDER, PLACE, 'uid') as unknown as { data: Record<string, string> };
  const text = (key: string) => Buffer.from(data[key] as string, 'base64').toString();
  assert.match(text('clone'), /the-ticket-of-the-build/);
  assert.not.match(text('clone'), /the-token-for-the-store/);
  assert.match(text('publish'), /the-token-for-the-store/);
  assert.not.match(text('publish'), /the-ticket-of-the-build|a-variable-of-the-owner/);
});

test('the object of the Job has no value of the tenant and no secret', () => {
  const text = JSON.stringify(buildJob(ORDER, PLACE));
  for (const value of ['git.example.com', '$(id)', '`id`', 'a-variable-of-the-owner', ORDER.ticket, PLACE.publishToken])
    assert.not.ok(text.includes(value), value);
});

test('the output of a preview is published under its own name, within the limits of previews', () => {
  const order = { ...ORDER, plan: 'enterprise' as const, site: previewName('shop', 'next') };
  const publish = (of: BuildOrder) => {
    const { data } = buildSecret(of, PLACE, 'uid') as unknown as { data: Record<string, string> };
    return JSON.parse(Buffer.from(data.publish as string, 'base64').toString());
  };
  assert.equal([publish(order).ref, publish(ORDER).ref], [order.site, 'shop']);
  assert.is(publish({ ...order, plan: 'free' }).limits.totalBytes, PREVIEW_LIMITS.free.totalBytes);
  assert.equal(publish(order).limits, DEPLOYMENT_LIMITS.enterprise);
  const { labels, annotations } = buildJob(order, PLACE).metadata;
  assert.equal([labels?.[LABEL_BUILD_OF], annotations?.[ANNOTATION_SITE]], ['shop', order.site]);
});

test('the clone of a check for missed pushes has the commit that was built before', () => {
  const { data } = buildSecret({ ...ORDER, unless: 'abc' }, PLACE, 'uid') as unknown as { data: { clone: string } };
  assert.is(JSON.parse(Buffer.from(data.clone, 'base64').toString()).source.unless, 'abc');
});

test('the clone gets the branch and the address of the site for the commands', () => {
  const { data } = buildSecret(ORDER, PLACE, 'uid') as unknown as { data: { clone: string } };
  const { deployment } = JSON.parse(Buffer.from(data.clone, 'base64').toString());
  assert.equal(deployment, { BRANCH: 'next', SITE_URL: 'https://shop.slipway.example.com' });
});

test('the container of Kaniko writes an OCI layout, pushes nothing, and gets the site’s flags', () => {
  assert.equal(named('build').args, [
    '--context=dir:///workspace/context',
    '--dockerfile=/workspace/context/Dockerfile',
    '--no-push',
    '--no-push-cache',
    '--oci-layout-path=/workspace/image',
    '--single-snapshot',
    '--log-format=text',
    '--log-timestamp=false',
  ]);
  const more = { ...site.builds, kanikoArguments: ['--registry-mirror=mirror.example.com'] };
  assert.is(kanikoArguments(more).at(-1), '--registry-mirror=mirror.example.com');
});

test('the pod of a build has no service account, no name server, and no root user of its node', () => {
  const { automountServiceAccountToken, dnsPolicy, dnsConfig, hostUsers, serviceAccountName, restartPolicy } = podOf();
  assert.equal(
    { automountServiceAccountToken, dnsPolicy, dnsConfig, hostUsers, serviceAccountName, restartPolicy },
    {
      automountServiceAccountToken: false,
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['127.0.0.1'] },
      hostUsers: false,
      serviceAccountName: undefined,
      restartPolicy: 'Never',
    },
  );
  assert.not('hostUsers' in podOf({ ...PLACE, hasUserNamespaces: false }));
  for (const { securityContext } of containersOf()) assert.is(securityContext.allowPrivilegeEscalation, false);
  for (const name of ['clone', 'publish']) {
    const { runAsNonRoot, readOnlyRootFilesystem, capabilities } = named(name).securityContext;
    assert.equal([runAsNonRoot, readOnlyRootFilesystem, capabilities], [true, true, { drop: ['ALL'] }]);
  }
  assert.not('add' in named('build').securityContext.capabilities);
});

test('each container of a build has the limits of the plan, and the Job has a deadline', () => {
  for (const { resources } of containersOf()) {
    assert.is(resources.limits.memory, String(4 * 1024 ** 3));
    assert.is(resources.limits['ephemeral-storage'], String(10 * 1024 ** 3));
    assert.is(resources.limits.cpu, '2');
  }
  assert.is(jobOf().activeDeadlineSeconds, 20 * 60 + 300);
  assert.is(jobOf().backoffLimit, 0);
  assert.is(jobOf(PLACE, { ...ORDER, limits: BUILD_LIMITS.enterprise }).activeDeadlineSeconds, 60 * 60 + 300);
});

test('the Secret of a build is owned by its Job, and immutable', () => {
  const { metadata, immutable } = buildSecret(ORDER, PLACE, 'the-uid') as unknown as {
    metadata: { ownerReferences: object[] };
    immutable: boolean;
  };
  assert.equal(metadata.ownerReferences, [{ apiVersion: 'batch/v1', kind: 'Job', name: 'b-1', uid: 'the-uid' }]);
  assert.is(immutable, true);
});

test.run();
