import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Program, startLite } from '../peers.js';

/** @supabase/lite on node:sqlite and a file, which is its faster driver by `lite-drivers`. */
export async function startLiteOnSqlite(schema: string): Promise<Program> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-lite-'));
  const url = `file:${path.join(folder, 'data.db')}`;
  const program = await startLite({ driver: 'sqlite', url, schema, jwtSecret: randomBytes(32).toString('hex') });
  const close = async () => {
    await program.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { ...program, close };
}
