/**
 * The process with all subscribers. In, over IPC: a job, then any number of runs. Out: the result of each run. The
 * first socket sends; every other one counts. Messages arrive in order, so the n-th message received is the n-th sent,
 * and none has to be parsed.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { WebSocket } from 'ws';
import type { Deliveries, SubscribersJob, SubscribersRun } from './subscribers.js';

/** Maximum number of messages in a flood that not every socket has received yet. */
const UNDER_WAY = 4;
const OPENED_AT_ONCE = 50;
const PATIENCE_MS = 10_000;
const PAYLOAD = { text: 'x'.repeat(100) };

interface Subscriber {
  socket: WebSocket;
  received: number;
}

const subscribers: Subscriber[] = [];
let job: SubscribersJob;
let database: pg.Client | undefined;
let sentAt: number[] = [];
let latencies: number[] = [];
let deliveries = 0;
let onDelivery: () => void = () => undefined;

process.on('message', (message: SubscribersJob | SubscribersRun) => {
  const work = 'kind' in message ? run(message) : begin(message);
  work.then(
    (answer) => process.send?.(answer),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit());

async function begin(given: SubscribersJob): Promise<string> {
  job = given;
  for (let at = 0; at < job.sockets; at += OPENED_AT_ONCE) {
    const some = Array.from({ length: Math.min(OPENED_AT_ONCE, job.sockets - at) }, (_, n) => open(at + n));
    subscribers.push(...(await Promise.all(some)));
  }
  if (job.database) {
    database = new pg.Client(job.database);
    await database.connect();
    await database.query('set role service_role');
  }
  return 'ready';
}

async function open(place: number): Promise<Subscriber> {
  const socket = new WebSocket(job.url, { perMessageDeflate: false });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const join = job.joins[place % Math.max(job.joins.length, 1)];
  if (join !== undefined) {
    const joined = new Promise<void>((resolve, reject) => {
      const hear = (data: Buffer) => {
        const text = data.toString();
        if (text.includes('"error"')) reject(new Error(text.slice(0, 500)));
        if (!text.includes(job.waitsForChanges ? 'Subscribed to PostgreSQL' : '"phx_reply"')) return;
        socket.off('message', hear);
        resolve();
      };
      socket.on('message', hear);
    });
    socket.send(join);
    await joined;
  }
  const subscriber: Subscriber = { socket, received: 0 };
  socket.on('message', () => {
    const sent = sentAt[subscriber.received++];
    if (sent !== undefined) latencies.push(performance.now() - sent);
    deliveries++;
    onDelivery();
  });
  socket.on('close', (code) => {
    console.error(`a subscriber was closed with ${code}`);
    process.exit(1);
  });
  return subscriber;
}

async function run(options: SubscribersRun): Promise<Deliveries> {
  sentAt = [];
  if (job.joins.length > 0) await beat();
  latencies = [];
  deliveries = 0;
  for (const subscriber of subscribers) subscriber.received = 0;
  const begun = performance.now();
  const listeners = options.kind === 'changes' ? subscribers.length : subscribers.length - 1;
  if (options.kind === 'flood') await flood(begun + options.seconds * 1000, listeners);
  else await paced(options, options.kind === 'changes' ? insert : send);
  const ended = await settled(listeners);
  const elapsed = options.kind === 'flood' ? ended - begun : options.seconds * 1000;
  latencies.sort((a, b) => a - b);
  const percentile = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
  const missing = sentAt.length * listeners - deliveries;
  return { deliveries, perSecond: deliveries / (elapsed / 1000), p50: percentile(0.5), p95: percentile(0.95), missing };
}

/** Sends heartbeats: a client that is silent for a minute is disconnected. */
async function beat(): Promise<void> {
  deliveries = 0;
  for (const { socket } of subscribers) socket.send('[null,"beat","phoenix","heartbeat",{}]');
  const patience = performance.now() + PATIENCE_MS;
  while (deliveries < subscribers.length && performance.now() < patience) await sleep(1);
}

const MESSAGE = Buffer.from(JSON.stringify(PAYLOAD));
/** A broadcast as realtime-js sends it in version 2.0.0; the bare server accepts any bytes. */
const FRAME = Buffer.concat([Buffer.from([3, 1, 1, 14, 1, 0, 1]), Buffer.from('12realtime:benche'), MESSAGE]);

async function send(): Promise<void> {
  sentAt.push(performance.now());
  (subscribers[0] as Subscriber).socket.send(FRAME);
}

/** The latency counts from when the insert is sent, as a change may arrive before the response to the commit. */
async function insert(): Promise<void> {
  sentAt.push(performance.now());
  await database?.query('insert into public.bench_changes (body) values ($1)', ['x'.repeat(100)]);
}

async function paced({ seconds, perSecond }: { seconds: number; perSecond: number }, act: () => Promise<void>) {
  const begun = performance.now();
  for (let n = 0; n < seconds * perSecond; n++) {
    await sleep(Math.max(0, begun + (n * 1000) / perSecond - performance.now()));
    await act();
  }
}

function flood(until: number, listeners: number): Promise<void> {
  return new Promise((resolve) => {
    const more = () => {
      while (performance.now() < until && sentAt.length * listeners - deliveries <= (UNDER_WAY - 1) * listeners)
        void send();
      if (performance.now() >= until) {
        onDelivery = () => undefined;
        resolve();
      }
    };
    onDelivery = more;
    more();
  });
}

/** Resolves when every message has arrived, or when none has arrived for too long. */
async function settled(listeners: number): Promise<number> {
  const patience = performance.now() + PATIENCE_MS;
  while (deliveries < sentAt.length * listeners && performance.now() < patience) await sleep(1);
  return performance.now();
}
