/**
 * The images of a test cluster, in buildah's store on this machine. They survive the cluster, so an image with
 * unchanged sources is loaded without a build. test-cluster.ts uses it, and lets only one run at a time do so.
 */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { ImageStore } from './images.js';
import { run, succeeds } from './run.js';
import { DOCKERFILE } from './sources.js';

const buildah = (...args: string[]) => run('buildah', ['--storage-driver', 'overlay', ...args]);

/**
 * Returns the second name of an image, which contains the hash of its sources: `slipway/api:sources-0123456789abcdef`.
 */
const nameOfSources = (tag: string, sources: string) => tag.replace(/:.*/, `:sources-${sources.slice(0, 16)}`);

/** `kube` runs the test cluster's command. `state` is the folder of the cluster's state. */
export function buildahImages(
  root: string,
  sources: string,
  state: string,
  kube: (...args: string[]) => Promise<string>,
): ImageStore {
  return {
    prepare: async () => void (await kube('base')),
    build: async (target, tag) => {
      const name = nameOfSources(tag, sources);
      if (await succeeds('buildah', ['--storage-driver', 'overlay', 'inspect', '--type', 'image', name])) {
        await load(name, tag, path.join(state, `image-${process.pid}-${target}.tar`), kube);
        return 'loaded';
      }
      // The images share their first stages. One stage downloads packages while another compiles.
      await kube('build', tag, root, '-f', path.join(root, DOCKERFILE), '--target', target, '--layers', '--jobs', '2');
      await buildah('tag', tag, name);
      return 'built and loaded';
    },
    finish: () => removeOthers(sources),
  };
}

async function load(name: string, tag: string, archive: string, kube: (...args: string[]) => Promise<string>) {
  try {
    await buildah('push', name, `docker-archive:${archive}:${tag}`);
    await kube('load', archive);
  } finally {
    await rm(archive, { force: true });
  }
}

/**
 * Removes images of other sources, and unused layers of builds, which take 2 GB each. Base images have names and stay.
 */
async function removeOthers(sources: string): Promise<void> {
  const listed = await buildah('images', '--format', '{{.Name}}:{{.Tag}}');
  const ours = listed.split('\n').filter((name) => /(^|\/)slipway\/[a-z]+:sources-[0-9a-f]+$/.test(name));
  const others = ours.filter((name) => !name.endsWith(`:sources-${sources.slice(0, 16)}`));
  if (others.length > 0) await buildah('rmi', ...others);
  await buildah('rmi', '--prune');
}
