/** Messages between `launcher.ts` and its process in `main.ts`. */

export interface Command {
  command: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** Whom it runs as, where the command itself does not say. */
  account?: { uid: number; gid: number };
  /** For its standard input, which then stays open; without it there is none. */
  input?: string;
}

export const OUTPUTS = ['stdout', 'stderr'] as const;
export type Output = (typeof OUTPUTS)[number];

/** `read` is for one more chunk: what is not asked for stays in the process' pipe, and it waits. */
export type Order =
  | ({ order: 'start'; id: number } & Command)
  | { order: 'read'; id: number; output: Output }
  | { order: 'kill'; id: number };

export interface Exit {
  code: number | null;
  signal: string | null;
}

export type News =
  | { news: 'started'; id: number; pid: number }
  /** `null` is its end. */
  | { news: 'output'; id: number; output: Output; chunk: Uint8Array | null }
  /** Its outputs may yet be read. */
  | { news: 'exited'; id: number }
  /** The last of it: its outputs have ended before. */
  | ({ news: 'closed'; id: number } & Exit)
  | { news: 'failed'; id: number; message: string };
