/**
 * The process of uploads and downloads. In, over IPC: a job, then any number of runs. Out: the sample of each run. A
 * closed loop: each connection begins its next transfer once the last one is done. Each upload has a name of its own.
 * After the run, the last upload of each connection is read back and compared.
 */
import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { answerRuns } from '../measure/answer-runs.js';
import type { LoadRun, Sample } from '../measure/load.js';
import { TransferConnection } from './transfer-connection.js';
import type { TransferJob } from './transfers.js';

let job: TransferJob;
let content: Buffer;
let uploads = 0;

answerRuns(begin, run);

function begin(given: TransferJob): void {
  job = given;
  content = randomBytes(job.bytes);
}

const headOf = (method: string, url: URL) =>
  `${method} ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\n${Object.entries(job.headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}`;
const objectUrl = (name: string) => new URL(name, job.baseUrl);
const send = (connection: TransferConnection, name: string) =>
  connection.ask(`${headOf('POST', objectUrl(name))}content-type: application/octet-stream\r\n`, content);
const fetched = (connection: TransferConnection, name: string) =>
  connection.ask(headOf('GET', objectUrl(name)), undefined, content);

async function run({ connections, seconds }: LoadRun): Promise<Sample> {
  const { hostname, port } = new URL(job.baseUrl);
  const opened = await Promise.all(
    Array.from({ length: connections }, () => TransferConnection.open(hostname, Number(port))),
  );
  const names = opened.map((_, index) => `at-first-${index}`);
  if (job.direction === 'download') await Promise.all(opened.map((each, index) => sent(each, names[index] as string)));
  const latencies: number[] = [];
  const failures: string[] = [];
  const loop = async (connection: TransferConnection, index: number) => {
    for (let sentAt = performance.now(); sentAt < end; ) {
      if (job.direction === 'upload') names[index] = `upload-${++uploads}`;
      const name = names[index] as string;
      const answer = await (job.direction === 'upload' ? send(connection, name) : fetched(connection, name));
      const answered = performance.now();
      if (answer.status === 200 && answer.matches) latencies.push(answered - sentAt);
      else failures.push(answer.status === 200 ? 'another content' : `${answer.status} ${answer.text}`);
      sentAt = answered;
    }
  };
  const cpuBefore = process.cpuUsage();
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(opened.map(loop));
  // Transfers that are in flight at the end count too, with their time, because only few large ones fit into a run.
  const elapsed = performance.now() - start;
  const cpu = process.cpuUsage(cpuBefore);
  for (const [index, connection] of opened.entries()) {
    const { status, matches } = await fetched(connection, names[index] as string);
    if (status !== 200 || !matches) failures.push('the stored object differs from the uploaded one');
  }
  await cleared(opened[0] as TransferConnection);
  for (const connection of opened) connection.close();
  latencies.sort((a, b) => a - b);
  const percentile = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
  return {
    requests: latencies.length,
    perSecond: (latencies.length / elapsed) * 1000,
    p50: percentile(0.5),
    p95: percentile(0.95),
    p99: percentile(0.99),
    generatorCpuSeconds: (cpu.user + cpu.system) / 1e6,
    failures: failures.length,
    firstFailure: failures[0] ?? '',
  };
}

async function sent(connection: TransferConnection, name: string): Promise<void> {
  const { status, text } = await send(connection, name);
  if (status !== 200) throw new Error(`${name} was not accepted: ${status} ${text}`);
}

async function cleared(connection: TransferConnection): Promise<void> {
  const [method, path] = job.clear;
  const { status, text } = await connection.ask(headOf(method, new URL(path, job.baseUrl)), Buffer.alloc(0));
  if (status !== 200) throw new Error(`the uploaded objects were not removed: ${status} ${text}`);
}
