/** Starts both sides with the same schema and the same tokens, and runs all cases on them. */
import { randomBytes } from 'node:crypto';
import { AUTH } from './auth.cases.js';
import type { Case } from './case.js';
import { startLite } from './lite.js';
import { startOurs } from './ours.js';
import { READING } from './rest-reading.cases.js';
import { WRITING } from './rest-writing.cases.js';
import { type Outcome, runAll } from './run.js';
import { SCHEMA } from './schema.js';
import { type Query, type Side, tokensOf } from './side.js';
import { STORAGE } from './storage.cases.js';

export const CASES: readonly Case[] = [...READING, ...WRITING, ...AUTH, ...STORAGE];

export async function runOnBoth(): Promise<Outcome[]> {
  const jwtSecret = randomBytes(32).toString('hex');
  const started = await Promise.allSettled([startOurs(SCHEMA, jwtSecret), startLite(SCHEMA, jwtSecret)]);
  try {
    const [ours, lite] = [settledValue(started[0]), settledValue(started[1])];
    const tokens = await tokensOf(jwtSecret);
    const side = (name: string, { url, database }: Started): Side => ({ name, url, database, tokens, variables: {} });
    return await runAll(side('ours', ours), side('lite', lite), CASES);
  } finally {
    for (const each of started) if (each.status === 'fulfilled') await each.value.close();
  }
}

interface Started {
  url: string;
  database: Query;
}

function settledValue<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}
