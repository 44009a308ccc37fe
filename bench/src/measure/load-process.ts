/**
 * The load generator's process. In, over IPC: a job, then any number of runs. Out: the sample of each run. A closed
 * loop: each connection sends its next request once it has the response to the last one.
 */
import { performance } from 'node:perf_hooks';
import { answerRuns } from './answer-runs.js';
import { type Answer, HttpConnection } from './http-connection.js';
import type { LoadJob, LoadRun, Sample } from './load.js';
import { compileTemplate } from './request-template.js';

/** Returns a connection's next request, given the response to its last one. */
type NextRequest = (connection: number, answer: Answer | undefined) => string;

let target: { host: string; port: number };
let next: NextRequest;
let expectedStatuses: number[];

answerRuns(begin, run);

function begin(job: LoadJob): void {
  const url = new URL(job.baseUrl);
  target = { host: url.hostname, port: Number(url.port) };
  expectedStatuses = job.expectedStatuses;
  next = job.scenario.kind === 'template' ? fromTemplate(job) : tokenChain(job);
}

function fromTemplate({ scenario, baseUrl }: LoadJob): NextRequest {
  if (scenario.kind !== 'template') throw new TypeError('not a template');
  const url = new URL(baseUrl);
  const prefix = url.pathname.replace(/\/$/, '');
  const write = compileTemplate({ ...scenario.template, path: prefix + scenario.template.path }, url.host);
  return () => write();
}

/** Each connection sends the refresh token of its last response. */
function tokenChain({ scenario, baseUrl }: LoadJob): NextRequest {
  if (scenario.kind !== 'token-chain') throw new TypeError('not a token chain');
  const url = new URL(baseUrl);
  const tokens = [...scenario.refreshTokens];
  const head =
    `POST ${url.pathname.replace(/\/$/, '')}/auth/v1/token?grant_type=refresh_token HTTP/1.1\r\nhost: ${url.host}\r\n` +
    `connection: keep-alive\r\napikey: ${scenario.apikey}\r\ncontent-type: application/json\r\n`;
  return (connection, answer) => {
    if (answer?.status === 200) tokens[connection] = JSON.parse(answer.body.toString()).refresh_token;
    const body = JSON.stringify({ refresh_token: tokens[connection] });
    return `${head}content-length: ${body.length}\r\n\r\n${body}`;
  };
}

const lastAnswers: (Answer | undefined)[] = [];

async function run({ connections, seconds }: LoadRun): Promise<Sample> {
  const opened = await Promise.all(
    Array.from({ length: connections }, () => HttpConnection.open(target.host, target.port)),
  );
  const latencies: number[] = [];
  let failures = 0;
  let firstFailure = '';
  const start = performance.now();
  const end = start + seconds * 1000;
  const loop = async (connection: HttpConnection, index: number) => {
    for (let sentAt = performance.now(); sentAt < end; ) {
      const answer = await connection.ask(next(index, lastAnswers[index]));
      lastAnswers[index] = answer;
      const answered = performance.now();
      if (!expectedStatuses.includes(answer.status)) {
        failures++;
        firstFailure ||= `${answer.status} ${answer.body.toString().slice(0, 300)}`;
      } else if (answered <= end) latencies.push(answered - sentAt);
      sentAt = answered;
    }
  };
  const cpuBefore = process.cpuUsage();
  await Promise.all(opened.map(loop));
  const cpu = process.cpuUsage(cpuBefore);
  for (const connection of opened) connection.close();
  latencies.sort((a, b) => a - b);
  const percentile = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
  return {
    requests: latencies.length,
    perSecond: latencies.length / seconds,
    p50: percentile(0.5),
    p95: percentile(0.95),
    p99: percentile(0.99),
    generatorCpuSeconds: (cpu.user + cpu.system) / 1e6,
    failures,
    firstFailure,
  };
}
