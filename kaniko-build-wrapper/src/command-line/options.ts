/** Reads the arguments of the command line. In: arguments, and the files that they name. Out: a build. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ParseArgsConfig, parseArgs, parseEnv } from 'node:util';
import { type Environment, readReach } from '@slipway/program';
import type { BuildRequest } from '../request.js';

/** An invalid argument. The message names it. */
export class InvalidArgument extends Error {}

export type SiteBuild = Omit<BuildRequest, 'folders'> & {
  /** Undefined: the cache is deleted with the build. */
  cache: string | undefined;
  /** The folder of sites, and the name of the site there. */
  publish: { folder: string; site: string };
};

const TEXT = { type: 'string' } as const;
const OPTIONS = {
  to: TEXT,
  site: TEXT,
  revision: TEXT,
  'root-dir': TEXT,
  'install-command': TEXT,
  'build-command': TEXT,
  'output-dir': TEXT,
  'env-file': TEXT,
  'token-file': TEXT,
  'deploy-key-file': TEXT,
  cache: TEXT,
  submodules: { type: 'boolean' },
  minutes: TEXT,
  'memory-mib': TEXT,
} as const satisfies ParseArgsConfig['options'];

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;
const MIB = 2 ** 20;

/** @throws InvalidArgument */
export function readArguments(args: string[], environment: Environment): SiteBuild {
  const { values, positionals } = parsed(args);
  const [repoUrl] = positionals;
  if (repoUrl === undefined || positionals.length > 1) throw new InvalidArgument('name one repository');
  if (values.to === undefined) throw new InvalidArgument('--to=FOLDER is missing');
  const site = values.site ?? 'site';
  if (!NAME.test(site)) throw new InvalidArgument('--site must be lower-case letters, digits and "-"');
  const memoryBytes = positive('memory-mib', values['memory-mib'] ?? '4096') * MIB;
  const branch = values.revision ?? 'main';
  return {
    ref: site,
    build: `build-${randomUUID().slice(0, 8)}`,
    source: { repoUrl, revision: branch, submodules: values.submodules ?? false },
    credentials: {
      token: content('token-file', values)?.trim() ?? null,
      deployKey: content('deploy-key-file', values) ?? null,
    },
    settings: {
      rootDir: values['root-dir'],
      framework: undefined,
      installCommand: values['install-command'],
      buildCommand: values['build-command'],
      outputDir: values['output-dir'],
    },
    deployment: { BRANCH: branch, SITE_URL: `http://${site}.localhost` },
    env: variables(content('env-file', values) ?? ''),
    limits: {
      milliseconds: positive('minutes', values.minutes ?? '20') * 60_000,
      processMemoryBytes: memoryBytes,
      memoryBytes,
      processes: 4096,
      diskBytes: 10 * 1024 * MIB,
      logBytes: 10 * MIB,
    },
    reach: readReach(environment),
    certificates: environment.SLIPWAY_CA_FILE,
    cache: values.cache,
    publish: { folder: values.to, site },
  };
}

function parsed(args: string[]) {
  try {
    return parseArgs({ args, allowPositionals: true, options: OPTIONS });
  } catch (error) {
    throw new InvalidArgument((error as Error).message);
  }
}

function content(option: keyof typeof OPTIONS, values: Partial<Record<string, string | boolean>>): string | undefined {
  const file = values[option];
  if (typeof file !== 'string') return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new InvalidArgument(`--${option}: ${(error as Error).message}`);
  }
}

const variables = (text: string): Record<string, string> => parseEnv(text) as Record<string, string>;

function positive(option: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value <= 0) throw new InvalidArgument(`--${option} must be a positive number`);
  return value;
}
