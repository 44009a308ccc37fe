/**
 * Checks that a source can be deployed: the source parses, and its imports exist, are fetched into the project's cache,
 * and are no local files. None of its code runs. Out: problems, with lines and columns that count from 1.
 */

import path from 'node:path';
import { type JsonBound, JsonRefusal, parseJsonInTurns } from '@slipway/program';
import type { Account, Launched } from '@slipway/sandbox';
import { megabytesOf } from './cache.js';
import { type Deno, OWN_CONFIGURATION_ONLY, startDeno } from './deno.js';
import { noRoom } from './isolate.js';

export interface SourceProblem {
  message: string;
  line?: number;
  column?: number;
}

export interface CheckOptions {
  deno: Deno;
  /** Folder with `index.ts`. */
  source: string;
  cache: string;
  account: Account | undefined;
  /** Timeout of the whole check in milliseconds. */
  milliseconds: number;
  /** Maximum size of the cache in MiB. */
  cacheMegabytes: number;
  /** Ends the check's process if it uses too much memory. */
  watch?(process: Launched, tooLarge: (isShared: boolean) => void): void;
}

/** Error of a check whose cache grew beyond its limit. */
export class CacheFull extends Error {}

interface Span {
  start: { line: number; character: number };
}
interface Graph {
  roots: string[];
  modules: {
    specifier: string;
    error?: string;
    dependencies?: { specifier: string; isDynamic?: boolean; code?: { specifier?: string; span?: Span } }[];
  }[];
}

export async function checkSource(options: CheckOptions): Promise<SourceProblem[]> {
  const end = performance.now() + options.milliseconds;
  const inspected = await run(options, end, ['info', '--json', ...OWN_CONFIGURATION_ONLY, 'index.ts']);
  if (inspected.large) return [problemOf(options.source, inspected)];
  const graph = await parseGraph(inspected.stdout);
  if (graph === 'too large') return [{ message: 'the function imports too many modules: import less' }];
  if (graph === undefined) return [problemOf(options.source, inspected)];
  const problems = problemsOf(graph);
  if (problems.length > 0) return problems;
  // Problems of type packages are ignored, because they do not affect execution.
  const cached = await run(options, end, ['cache', '--quiet', '--no-check', ...OWN_CONFIGURATION_ONLY, 'index.ts']);
  return cached.code === 0 ? [] : [problemOf(options.source, cached)];
}

/** Imports of files are reported first, because a problem inside such a file would quote it. */
function problemsOf({ roots, modules }: Graph): SourceProblem[] {
  const root = modules.find(({ specifier }) => specifier === roots[0]);
  const files = modules
    .flatMap(({ dependencies = [] }) => dependencies)
    .filter(({ code }) => /^file:/i.test(code?.specifier ?? '') && code?.specifier !== roots[0]);
  if (files.length > 0) {
    return files.map(({ specifier, code }) => ({
      message:
        `${JSON.stringify(specifier)} is a file: ` +
        'a function is one source, and imports only npm:, jsr:, node: and https: modules',
      ...placeOf(code?.span),
    }));
  }
  if (root?.error !== undefined) return [parseProblem(root.error)];
  const importOf = (missing: string) =>
    modules
      .flatMap(({ dependencies = [] }) => dependencies)
      .find(({ code, isDynamic }) => code?.specifier === missing && !isDynamic);
  return modules.flatMap(({ specifier, error }) => {
    const failed = error === undefined ? undefined : importOf(specifier);
    return failed ? [{ message: importProblem(failed.specifier, error as string), ...placeOf(failed.code?.span) }] : [];
  });
}

function importProblem(specifier: string, error: string): string {
  const why = error.startsWith('Requires import access') ? 'functions import from no such host' : firstLine(error);
  return `${JSON.stringify(specifier)} can't be imported: ${why}`;
}

const placeOf = (span: Span | undefined) =>
  span ? { line: span.start.line + 1, column: span.start.character + 1 } : {};

interface Result {
  code: number | null;
  stdout: string;
  stderr: string;
  late: boolean;
  large: boolean;
}

function problemOf(source: string, { stderr, late, large }: Result): SourceProblem {
  if (large) return { message: 'the check of the source and of what it imports used too much memory: import less' };
  if (late) return { message: 'what the function imports could not be fetched in time' };
  return parseProblem(stderr.replaceAll(`file://${source}/`, ''));
}

/** Deno's format of an error: the problem, its line, and `at <file>:3:28`. */
function parseProblem(text: string): SourceProblem {
  const place = /\bat [^\s:]*(?:file:\/\/)?[^\s:]*index\.ts:(\d+):(\d+)/.exec(text);
  const message = firstLine(
    text.replace(/^[\s\S]*?\berror: /, '').replaceAll(/file:\/\/\/\S*\/index\.ts/g, 'index.ts'),
  );
  return { message, ...(place ? { line: Number(place[1]), column: Number(place[2]) } : {}) };
}

const firstLine = (text: string) =>
  (text.split('\n').find((line) => line.trim() !== '') ?? 'it could not be read').trim().slice(0, 400);

/** Limits of Deno's description of the modules: some thousand modules, whose objects have the same members. */
const MOST_OF_GRAPH: JsonBound = { bytes: 4 * 1024 * 1024, depth: 50, values: 150_000 };

async function parseGraph(text: string): Promise<Graph | 'too large' | undefined> {
  try {
    return (await parseJsonInTurns(Buffer.from(text), MOST_OF_GRAPH)) as Graph;
  } catch (error) {
    return error instanceof JsonRefusal && error.reason !== 'syntax' ? 'too large' : undefined;
  }
}

/** Milliseconds between two measurements of the cache's size. */
const MEASURE_MS = 1_000;
const OUTPUT_LIMIT = 4 * 1024 * 1024;

async function run(options: CheckOptions, end: number, args: string[]): Promise<Result> {
  const { deno, source, cache, account, cacheMegabytes } = options;
  const child = startDeno(deno, args, { cwd: path.resolve(source), cache, account });
  const result: Result = { code: null, stdout: '', stderr: '', late: false, large: false };
  let gaveWay = false;
  options.watch?.(child, (isShared) => {
    if (isShared) gaveWay = true;
    else result.large = true;
  });
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => {
      if (result[name].length < OUTPUT_LIMIT) result[name] += chunk;
      else child.kill();
    });
  }
  const timer = setTimeout(() => {
    result.late = true;
    child.kill();
  }, end - performance.now());
  let isOver = false;
  const isFull = async () => (await megabytesOf(cache)) > cacheMegabytes;
  let measuring = setTimeout(async function measure() {
    if (await isFull()) child.kill();
    else if (!isOver) measuring = setTimeout(measure, MEASURE_MS);
  }, MEASURE_MS);
  const { code } = await child.closed.finally(() => {
    isOver = true;
    clearTimeout(timer);
    clearTimeout(measuring);
  });
  if (gaveWay) throw noRoom();
  if (await isFull()) throw new CacheFull();
  return { ...result, code };
}
