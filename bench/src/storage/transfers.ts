/**
 * Starts and drives the generator of uploads and downloads. It is a process of its own so that it shares no event loop
 * with a server.
 */
import { Generator } from '../measure/generator.js';

export interface TransferJob {
  direction: 'upload' | 'download';
  bytes: number;
  /** URL prefix of objects: `http://127.0.0.1:4000/p/<ref>/storage/v1/object/bench/`. */
  baseUrl: string;
  headers: Record<string, string>;
  /** The request that removes all uploaded objects after each run: a method and a path. */
  clear: [method: string, path: string];
}

export class Transfers extends Generator<TransferJob> {
  constructor(job: TransferJob) {
    super(new URL('./transfer-process.js', import.meta.url), job);
  }
}
