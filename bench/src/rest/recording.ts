/**
 * Records the statements that the data plane sends for one request, from the log of Postgres. pgbench and the bare
 * server replay them, so they always send what the data plane sends.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { Platform } from '../platform.js';

export interface RecordedStatement {
  text: string;
  values: (string | null)[];
}

/** A value of a statement: constant, or taken from each request. */
export type PlannedValue = { kind: 'constant'; text: string | null } | { kind: 'id' } | { kind: 'body' };

export interface PlannedStatement {
  text: string;
  values: PlannedValue[];
}

/** Marks the values in the statements recorded for `sample` that differ between requests. */
export function planOf(recorded: RecordedStatement[], sample: { id: number; body?: string }): PlannedStatement[] {
  const plan = (text: string | null): PlannedValue => {
    if (text === String(sample.id)) return { kind: 'id' };
    if (text !== null && text === sample.body) return { kind: 'body' };
    return { kind: 'constant', text };
  };
  return recorded.map(({ text, values }) => ({ text, values: values.map(plan) }));
}

const LOG_TIMEOUT_MS = 10_000;

/** Runs `request` and returns the statements that `role` executed during it. `role` must have no other client. */
export async function record(
  platform: Platform,
  role: string,
  request: () => Promise<unknown>,
): Promise<RecordedStatement[]> {
  const admin = new Client(await platform.running.admin());
  await admin.connect();
  const quoted = admin.escapeIdentifier(role);
  const reconnect = () =>
    admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1', [role]);
  const file = path.join(platform.running.home, 'logs', 'postgres.log');
  try {
    await admin.query(`alter role ${quoted} set log_statement = 'all'`);
    await reconnect();
    // The first request of a connection also loads the catalogue.
    await request();
    const before = (await readFile(file, 'utf8')).length;
    await request();
    return await logged(file, before);
  } finally {
    await admin.query(`alter role ${quoted} reset log_statement`);
    await reconnect();
    await admin.end();
  }
}

async function logged(file: string, from: number): Promise<RecordedStatement[]> {
  const deadline = Date.now() + LOG_TIMEOUT_MS;
  for (let before = -1; Date.now() < deadline; ) {
    const text = (await readFile(file, 'utf8')).slice(from);
    const statements = parseLog(text);
    if (statements.length > 0 && text.length === before) return statements;
    before = text.length;
    await sleep(200);
  }
  throw new Error(`${file} has no statement of the request`);
}

/** Parses `LOG: execute name: text` and the `DETAIL: Parameters: …` after it; a tab marks a continued line. */
export function parseLog(text: string): RecordedStatement[] {
  const statements: RecordedStatement[] = [];
  for (const entry of text.replaceAll('\n\t', '\n\u0000').split(/\n(?!\u0000)/)) {
    const line = entry.replaceAll('\n\u0000', '\n');
    const executed = /LOG: {2}execute [^:]*: ([\s\S]*)$/.exec(line)?.[1];
    const parameters = /DETAIL: {2}Parameters: ([\s\S]*)$/.exec(line)?.[1];
    if (executed !== undefined) statements.push({ text: executed.trimEnd(), values: [] });
    const last = statements.at(-1);
    if (parameters !== undefined && last) last.values = parseParameters(parameters);
  }
  return statements;
}

/** `$1 = 'it''s', $2 = NULL` */
function parseParameters(text: string): (string | null)[] {
  const pairs = text.matchAll(/\$\d+ = (?:NULL|'((?:[^']|'')*)')(?:, |$|\n)/g);
  return [...pairs].map(([, quoted]) => (quoted === undefined ? null : quoted.replaceAll("''", "'")));
}
