/** Finds the machine's npm, and the registry that it is configured for. */
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { parseJson } from '@slipway/program';
import { systemProgram } from '@slipway/sandbox';

export interface MachineNpm {
  /** The path of npm's script, which Node runs. */
  cli: string;
  /** The folder of npm's package. */
  folder: string;
  registry: string;
  /** A file of certificate authorities. */
  cafile: string | undefined;
}

const WORDS = ['config', 'list', '--json'];
const PATIENCE_MS = 20_000;
let known: Promise<MachineNpm | undefined> | undefined;

/** Returns undefined if the machine has no npm. The result is cached. */
export function machineNpm(): Promise<MachineNpm | undefined> {
  known ??= find();
  return known;
}

async function find(): Promise<MachineNpm | undefined> {
  const program = systemProgram('npm');
  const cli = program && realpathSync(program);
  if (!cli?.endsWith('npm-cli.js')) return undefined;
  // npm runs with its own Node, because the machine's configuration is in a folder beside that Node.
  const { stdout } = await promisify(execFile)(program as string, WORDS, { cwd: '/', timeout: PATIENCE_MS });
  const { registry, cafile } = parseJson(stdout) as Record<string, unknown>;
  return {
    cli,
    folder: path.dirname(path.dirname(cli)),
    registry: String(registry),
    cafile: typeof cafile === 'string' && existsSync(cafile) ? cafile : undefined,
  };
}
