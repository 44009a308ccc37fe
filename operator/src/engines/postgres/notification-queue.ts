/**
 * Reads which sessions keep the server's notification queue from being emptied. In: a superuser's session. Out: for
 * each session that listens, its unread share of the queue, and its position. Called by SessionWatch.
 *
 * No view shows these sessions. Postgres names one of them in the warning "NOTIFY queue is 50% full". But it sends the
 * warning at most every 5 s, and only to the session that sends first: three sessions that flood the queue receive
 * every warning. In the log, a tenant can write the same text by RAISE.
 *
 * So this class reads the source of the warning: the queue's state in shared memory (`AsyncQueueControl` in async.c of
 * Postgres 18). Linux shows the memory of each process in `/proc/self/mem`. No session is reported on other systems and
 * versions, or where the state contradicts `pg_notification_queue_usage()`.
 */
import type pg from 'pg';

/** The part of the queue that a listening session has not read yet. */
export interface UnreadNotifications {
  /** Share of the whole queue. */
  share: number;
  /** Page that the session reads next. It does not advance while the session is in a transaction. */
  page: string;
}

const MAJOR_VERSION = 18;
const STATE_NAME = 'Async Queue Control';
/** Byte offsets in the queue's state: the pages of head and tail, and the first listener. */
const HEAD = 0;
const TAIL = 16;
const LISTENERS = 56;
/** Size of a listener's entry, and the offsets of its process id and of its page. */
const LISTENER = { bytes: 32, pid: 0, page: 16 };
/** Maximum accepted difference between the two readings of the usage, because the usage changes between them. */
const TOLERANCE = 0.05;

const FIND = `
  SELECT current_setting('server_version_num')::int / 10000 AS version,
    current_setting('max_notify_queue_pages')::int AS pages,
    (SELECT off FROM pg_get_shmem_allocations() WHERE name = '${STATE_NAME}') AS "offset",
    (SELECT size FROM pg_get_shmem_allocations() WHERE name = '${STATE_NAME}') AS size,
    pg_read_binary_file('/proc/self/maps', 0, 1000000, true) AS maps`;

export class NotificationQueue {
  private constructor(
    private readonly client: pg.Client,
    private readonly address: bigint,
    private readonly size: number,
    private readonly pages: number,
  ) {}

  /** Returns undefined on another system or version. The address is valid as long as the connection. */
  static async find(client: pg.Client): Promise<NotificationQueue | undefined> {
    const { rows } = await client.query(FIND);
    const { version, pages, offset, size, maps } = rows[0];
    const start = sharedMemory(maps as Buffer | null);
    if (version !== MAJOR_VERSION || offset === null || start === undefined) return undefined;
    return new NotificationQueue(client, start + BigInt(offset), Number(size), pages);
  }

  /** Returns the unread part of the queue by process id. */
  async unread(): Promise<Map<number, UnreadNotifications>> {
    const { rows } = await this.client.query(`SELECT pg_notification_queue_usage() AS usage,
      pg_read_binary_file('/proc/self/mem', ${this.address}, ${this.size}, true) AS state`);
    return listeners(rows[0].state as Buffer | null, Number(rows[0].usage), this.pages);
  }
}

/** Returns the address of the server's shared memory: the largest mapping that processes share. */
function sharedMemory(maps: Buffer | null): bigint | undefined {
  const mappings = (maps?.toString('latin1') ?? '').matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw-s /gm);
  const ranges = [...mappings].map(([, from, to]) => ({ from: BigInt(`0x${from}`), to: BigInt(`0x${to}`) }));
  return ranges.sort((a, b) => Number(b.to - b.from - (a.to - a.from)))[0]?.from;
}

/** `pages`: the capacity of the queue. */
function listeners(state: Buffer | null, usage: number, pages: number): Map<number, UnreadNotifications> {
  const found = new Map<number, UnreadNotifications>();
  if (state === null || state.length < LISTENERS) return found;
  const [head, tail] = [state.readBigInt64LE(HEAD), state.readBigInt64LE(TAIL)];
  if (Math.abs(Number(head - tail) / pages - usage) > TOLERANCE) return found;
  for (let at = LISTENERS; at + LISTENER.bytes <= state.length; at += LISTENER.bytes) {
    const pid = state.readInt32LE(at + LISTENER.pid);
    const page = state.readBigInt64LE(at + LISTENER.page);
    if (pid > 0 && page >= tail && page <= head)
      found.set(pid, { share: Number(head - page) / pages, page: String(page) });
  }
  return found;
}
