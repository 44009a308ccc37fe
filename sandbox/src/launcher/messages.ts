/** Messages between `launcher.ts` and its process in `main.ts`. */

export interface Command {
  command: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** Account of the process, unless the command itself changes it. */
  account?: { uid: number; gid: number };
  /** Text for its standard input, which then stays open. Default: no input. */
  input?: string;
}

export const OUTPUTS = ['stdout', 'stderr'] as const;
export type Output = (typeof OUTPUTS)[number];

/** `read` requests one more chunk. Output that was not requested stays in the process' pipe, which blocks it. */
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
  /** `null` marks its end. */
  | { news: 'output'; id: number; output: Output; chunk: Uint8Array | null }
  /** Sent at the exit; output may follow. */
  | { news: 'exited'; id: number }
  /** Last message, after the end of all output. */
  | ({ news: 'closed'; id: number } & Exit)
  | { news: 'failed'; id: number; message: string };
