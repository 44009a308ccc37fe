/** Finds the folder that a build made, or explains what the build made instead. The tenant controls its content. */
import { lstatSync, opendirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { innerFolder } from './inner-folder.js';
import { Refused } from './request.js';

/** Folders that builds make for a server, below the folder of the project, and how to make a site instead. */
const SERVERS: readonly [made: string, remedy: string][] = [
  ['.next', "The build made a Next.js server. Set output: 'export' in next.config.js to make a site."],
  ['.output/server', 'The build made a Nuxt server. Run nuxt generate to make a site.'],
  ['.svelte-kit/output/server', 'The build made a SvelteKit server. Use @sveltejs/adapter-static to make a site.'],
  ['dist/server', "The build made a server. In Astro, set output: 'static' and no adapter to make a site."],
  ['build/server', 'The build made a server. In React Router, set ssr: false to make a site.'],
];
const MOST_SHOWN = 10;
/** Maximum entries of a folder that are read for a message. */
const MOST_READ = 1_000;

/** Throws Refused if the folder is missing, is empty, or leads out of the sources. */
export function outputFolder(source: string, root: string, outputDir: string): string {
  const name = path.join(path.relative(source, root), outputDir);
  const output = innerFolder(source, name, 'output_dir', () => foundInstead(root));
  if (readdirSync(output).length === 0)
    throw new Refused(`output_dir ${JSON.stringify(name.slice(0, 200))} is empty. ${foundInstead(root)}`);
  return output;
}

function foundInstead(root: string): string {
  const server = SERVERS.find(([made]) => isFolder(path.join(root, made)));
  if (server) return server[1];
  const folders = foldersIn(root);
  if (folders.length === 0) return 'The project has no other folder.';
  const more = folders.length > MOST_SHOWN ? ', …' : '';
  return `The folders of the project are ${folders.slice(0, MOST_SHOWN).join(', ')}${more}.`;
}

/** Returns names that the message may show, except hidden folders and packages. */
function foldersIn(root: string): string[] {
  const names: string[] = [];
  const folder = opendirSync(root);
  try {
    for (let read = 0; read < MOST_READ; read += 1) {
      const entry = folder.readSync();
      if (entry === null) break;
      if (entry.isDirectory() && !/^\.|^node_modules$/.test(entry.name))
        names.push(JSON.stringify(entry.name.slice(0, 100)));
    }
  } finally {
    folder.closeSync();
  }
  return names.sort();
}

const isFolder = (place: string) => lstatSync(place, { throwIfNoEntry: false })?.isDirectory() === true;
