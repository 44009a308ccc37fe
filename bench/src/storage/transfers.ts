/**
 * The generator of uploads and downloads, seen from the bench that uses it: a process of its own, so that it shares no
 * event loop with a server.
 */
import { Generator } from '../measure/generator.js';

export interface TransferJob {
  direction: 'upload' | 'download';
  bytes: number;
  /** Prefix of objects' URLs: `http://127.0.0.1:4000/p/<ref>/storage/v1/object/bench/`. */
  baseUrl: string;
  headers: Record<string, string>;
  /** How all that was uploaded is removed after each run: a method and a path. */
  clear: [method: string, path: string];
}

export class Transfers extends Generator<TransferJob> {
  constructor(job: TransferJob) {
    super(new URL('./transfer-process.js', import.meta.url), job);
  }
}
