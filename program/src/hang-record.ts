/**
 * File in which a program records the projects for which it hung, for its next start. The watchdog thread writes it
 * before it ends the program. A missing or corrupt file is an empty record.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { parseJson } from './json.js';

export interface Hang {
  /** Milliseconds since 1970, by the machine's clock. */
  at: number;
  project: string;
  operation: string;
}

/** Maximum number of recorded hangs. Each hang takes 10 s, so they cover at least the last ten minutes. */
const MOST_HANGS = 64;

/** Returns the recorded hangs, the oldest first. */
export function readHangs(file: string): Hang[] {
  try {
    const recorded = parseJson(readFileSync(file));
    return Array.isArray(recorded) ? recorded.filter(isHang) : [];
  } catch {
    return [];
  }
}

export function recordHang(file: string, hang: Hang): void {
  const hangs = [...readHangs(file), hang].slice(-MOST_HANGS);
  writeFileSync(`${file}.new`, JSON.stringify(hangs), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

function isHang(value: unknown): value is Hang {
  const { at, project, operation } = (value ?? {}) as Partial<Hang>;
  return Number.isFinite(at) && typeof project === 'string' && typeof operation === 'string';
}
