/** Detects the framework of a project and how to build it. In: its sources and settings. Out: commands and folders. */
import { lstatSync } from 'node:fs';
import path from 'node:path';
import type { BuildSettings } from './request.js';
import { smallFile, smallObject } from './small-file.js';
import type { Manager } from './toolchain/plan.js';

interface Framework {
  name: string;
  /** The package that a project of this framework depends on. */
  dependency: string;
  build: string;
  output: string;
}

/** Known frameworks, in the order of the search: frameworks that are built on Vite come before Vite. */
const FRAMEWORKS: readonly Framework[] = [
  { name: 'next', dependency: 'next', build: 'next build', output: 'out' },
  { name: 'astro', dependency: 'astro', build: 'astro build', output: 'dist' },
  { name: 'sveltekit', dependency: '@sveltejs/kit', build: 'vite build', output: 'build' },
  { name: 'eleventy', dependency: '@11ty/eleventy', build: 'eleventy', output: '_site' },
  { name: 'vite', dependency: 'vite', build: 'vite build', output: 'dist' },
];
const NEXT_CONFIGS = ['next.config.js', 'next.config.mjs', 'next.config.ts', 'next.config.cjs'];
/** Possible output folders of build scripts without a known framework. */
const OUTPUTS = ['dist', 'build', 'out', 'public', '_site'];

export interface Commands {
  framework: string;
  installCommand: string;
  buildCommand: string;
  /** Undefined if only the build can show it; `outputAfter` then finds it. */
  outputDir: string | undefined;
  warnings: string[];
}

export function commandsOf(folder: string, settings: BuildSettings, manager: Manager): Commands {
  const manifest = smallObject(folder, 'package.json');
  if (manifest === undefined) return plain(folder, settings);
  const depends = { ...asObject(manifest.dependencies), ...asObject(manifest.devDependencies) };
  const found = FRAMEWORKS.find(({ name, dependency }) =>
    settings.framework ? name === settings.framework : dependency in depends,
  );
  const hasScript = typeof asObject(manifest.scripts).build === 'string';
  const exec = { npm: 'npx', pnpm: 'pnpm exec', yarn: 'yarn' }[manager.name];
  const build = hasScript ? `${manager.name} run build` : found ? `${exec} ${found.build}` : '';
  return {
    framework: found?.name ?? 'plain',
    installCommand: settings.installCommand ?? manager.install,
    buildCommand: settings.buildCommand ?? build,
    outputDir: settings.outputDir ?? found?.output,
    warnings: found?.name === 'next' && !isNextExport(folder) ? [NEXT_WARNING] : [],
  };
}

const NEXT_WARNING =
  "The Next.js project does not set output: 'export' in its configuration. Only an export can be hosted as a site.";

const asObject = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

function plain(folder: string, settings: BuildSettings): Commands {
  const isInPublic = !isFile(folder, 'index.html') && isFile(folder, 'public/index.html');
  return {
    framework: settings.framework ?? 'plain',
    installCommand: settings.installCommand ?? '',
    buildCommand: settings.buildCommand ?? '',
    outputDir: settings.outputDir ?? (isInPublic ? 'public' : settings.buildCommand ? undefined : '.'),
    warnings: [],
  };
}

const isFile = (folder: string, name: string) => smallFile(folder, name) !== undefined;

const isNextExport = (folder: string) =>
  NEXT_CONFIGS.some((file) => /\boutput\s*:\s*['"`]export['"`]/.test(smallFile(folder, file) ?? ''));

/** Returns the output folder that a build without a known framework made, or else the project's own folder. */
export const outputAfter = (folder: string): string =>
  OUTPUTS.find((name) => lstatSync(path.join(folder, name), { throwIfNoEntry: false })?.isDirectory()) ?? '.';
