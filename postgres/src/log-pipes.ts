/**
 * Reads the server's log from named pipes. In: a folder that the server's account can enter. Out: records and lines.
 * Called by `server.ts`.
 *
 * The server's logging collector joins the parts of each message and writes it as one line of JSON. So no message
 * contains part of another, and no text of a client looks like a record. The collector writes to a pipe instead of a
 * file, because a file would grow for as long as a session logs in a loop. If the pipe is full, that session waits.
 */
import { execFile } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { chown, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Account } from './account.js';
import { LineSplitter, type OnLine } from './line-splitter.js';
import { headOf, isAnnouncement, type LogRecord, recordOf, textOf } from './log-record.js';

const run = promisify(execFile);

/** The collector writes records to the file with the ending `.json`, and other output of the server to this one. */
const LINES = 'server.log';
const RECORDS = 'server.json';

export interface LogListener {
  /** Receives the log as text, one line at a time. */
  onLine(line: string): void;
  onRecord?: ((record: LogRecord) => void) | undefined;
  /** Returns false to drop a record of `database` before it is decoded. `isFatal`: its severity is FATAL. */
  accepts?: ((database: string, isFatal: boolean) => boolean) | undefined;
}

export interface LogPipes {
  /** Settings with which the server writes to the pipes. */
  settings: Record<string, string>;
  /** Resolves after the last line, once no process of the server has the pipes open. Called after the server's end. */
  finish(): Promise<void>;
  /** Closes the pipes at once. */
  close(): void;
}

/** Makes the pipes, and replaces those of an earlier start. */
export async function openLogPipes(
  folder: string,
  account: Account | undefined,
  listener: LogListener,
): Promise<LogPipes> {
  const lines = path.join(folder, LINES);
  const records = path.join(folder, RECORDS);
  for (const file of [lines, records]) await rm(file, { force: true });
  await run('mkfifo', ['-m', '600', lines, records]);
  if (account) for (const file of [lines, records]) await chown(file, account.uid, account.gid);
  const pipes = [openPipe(lines, (line) => passText(line, listener)), openPipe(records, recordReader(listener))];
  return {
    settings: {
      logging_collector: 'on',
      log_destination: 'jsonlog',
      log_directory: folder,
      log_filename: LINES,
      log_rotation_age: '0',
      log_rotation_size: '0',
    },
    finish: async () => {
      await Promise.all(pipes.map((pipe) => pipe.finish()));
    },
    close: () => {
      for (const pipe of pipes) pipe.close();
    },
  };
}

/**
 * Reads a pipe. This process also opens the end for writing. So the pipe has no end before the server opens it, nor
 * while the server replaces a collector that ended.
 */
function openPipe(file: string, onLine: OnLine) {
  // Without O_NONBLOCK, the opening would wait for the other end.
  const reading = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(file, constants.O_WRONLY | constants.O_NONBLOCK);
  const socket = new Socket({ fd: reading, readable: true, writable: false });
  const splitter = new LineSplitter(onLine);
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket
    .on('data', (chunk: Buffer) => splitter.push(chunk))
    .on('end', () => splitter.end())
    .on('error', () => {});
  let isOpen = true;
  const finish = () => {
    if (isOpen) closeSync(writing);
    isOpen = false;
    return closed;
  };
  const close = () => {
    void finish();
    socket.destroy();
  };
  return { finish, close };
}

/** Passes a line of text on, except for the lines that announce the collector at each start. */
export function passText(line: Buffer | string, { onLine }: Pick<LogListener, 'onLine'>): void {
  const text = line.toString();
  if (text !== '' && !isAnnouncement(text)) onLine(text);
}

function recordReader({ onLine, onRecord, accepts }: LogListener): OnLine {
  return (line, bytes) => {
    const head = accepts && headOf(line);
    if (head && !accepts?.(head.database, head.isFatal)) return;
    const record = recordOf(line, bytes);
    if (!record) return;
    for (const text of textOf(record)) passText(text, { onLine });
    onRecord?.(record);
  };
}
