/**
 * The upper bound for the database: pgbench sends the same statements of each request in one pipeline, without a server
 * in between.
 */
import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LoadRun, Sample } from '../measure/load.js';
import type { Login } from './database.js';
import { ROWS_PER_USER } from './dataset.js';
import { OPERATION_NAMES, type OperationName } from './operations.js';
import type { PlannedStatement } from './recording.js';

const DEBIAN_VERSIONS = '/usr/lib/postgresql';

/** Searches PATH, then the folders of Debian's Postgres versions, newest first. */
export async function findPgbench(searchPath: string): Promise<string | undefined> {
  const versions = await readdir(DEBIAN_VERSIONS).catch(() => []);
  versions.sort((a, b) => Number(b) - Number(a));
  const folders = [
    ...searchPath.split(path.delimiter),
    ...versions.map((version) => path.join(DEBIAN_VERSIONS, version, 'bin')),
  ];
  for (const folder of folders) {
    const file = path.join(folder, 'pgbench');
    if (
      await access(file, constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return file;
  }
  return undefined;
}

type Scripts = Record<OperationName, { statements: PlannedStatement[]; body: string | undefined }>;

export class Pgbench {
  readonly #binary: string;
  readonly #login: Login;
  readonly #scripts: Scripts;
  readonly #folder: string;

  private constructor(binary: string, login: Login, scripts: Scripts, folder: string) {
    this.#binary = binary;
    this.#login = login;
    this.#scripts = scripts;
    this.#folder = folder;
  }

  /** `body` is the template of the request's body. */
  static async create(binary: string, login: Login, scripts: Scripts): Promise<Pgbench> {
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-pgbench-'));
    for (const name of OPERATION_NAMES) {
      const { statements, body } = scripts[name];
      await writeFile(path.join(folder, name), script(statements, body));
    }
    return new Pgbench(binary, login, scripts, folder);
  }

  async run(name: OperationName, { connections, seconds }: LoadRun): Promise<Sample> {
    const { host, port, user, database, password } = this.#login;
    const { statements, body } = this.#scripts[name];
    const args = [
      ...['--no-vacuum', '--protocol', 'prepared', '--client', String(connections), '--jobs', '2'],
      ...['--time', String(seconds), '--file', path.join(this.#folder, name)],
      ...Object.entries(variables(statements, body)).flatMap(([key, value]) => ['--define', `${key}=${value}`]),
      ...['--host', host, '--port', String(port), '--username', user, database],
    ];
    const child = spawn(this.#binary, args, { env: { PGPASSWORD: password }, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output = (output + text).slice(-10_000);
      });
    }
    const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
    const number = (pattern: RegExp) => Number(pattern.exec(output)?.[1] ?? 0);
    const perSecond = number(/^tps = ([\d.]+)/m);
    if (code !== 0 || perSecond === 0) throw new Error(`pgbench: ${output.slice(-2000)}`);
    const failures = number(/^number of failed transactions: (\d+)/m);
    const requests = number(/^number of transactions actually processed: (\d+)/m);
    return { requests, perSecond, failures, firstFailure: failures ? output.slice(-500) : '' };
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

const PLACEHOLDER = /\{(random|unique)\}/g;

/** pgbench binds variables as parameters, as a program does. It would read a colon in a literal as a variable. */
function variables(statements: PlannedStatement[], body: string | undefined): Record<string, string> {
  const constants = statements.flatMap(({ values }, statement) =>
    values.map((value, index) => [variable(statement, index), value] as const),
  );
  const bound: Record<string, string> = body === undefined ? {} : { body: body.replace(PLACEHOLDER, '%s') };
  for (const [name, value] of constants) if (value.kind === 'constant' && value.text !== null) bound[name] = value.text;
  return bound;
}

const variable = (statement: number, index: number) => `value_${statement}_${index}`;

function script(statements: PlannedStatement[], body: string | undefined): string {
  const filled = [':body', ...[...(body ?? '').matchAll(PLACEHOLDER)].map(() => ':id::int')];
  const parameter = (statement: number, index: number): string => {
    const value = statements[statement]?.values[index];
    if (value?.kind === 'id') return ':id';
    if (value?.kind === 'body') return filled.length > 1 ? `format(${filled.join(', ')})` : ':body';
    return value?.text === null ? 'null' : `:${variable(statement, index)}`;
  };
  return [
    `\\set id random(1, ${ROWS_PER_USER})`,
    '\\startpipeline',
    ...statements.map(({ text }, at) => `${text.replace(/\$(\d+)/g, (_, number) => parameter(at, number - 1))};`),
    '\\endpipeline',
    '',
  ].join('\n');
}
