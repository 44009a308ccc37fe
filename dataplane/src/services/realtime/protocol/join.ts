/** Parses a client's join. In: the payload of phx_join. Out: a checked, complete configuration. */
export interface ChangeSpec {
  /** Parameters as the client sent them, for the reply. */
  params: Fields;
  /** Equal for equal requests of any clients, so that one frame serves all of them. */
  id: number;
  event: '*' | 'INSERT' | 'UPDATE' | 'DELETE';
  schema: string;
  /** Name of the table. `*` means every published table of the schema. */
  table: string;
  filter: string | undefined;
  select: readonly string[] | undefined;
}

export interface JoinConfig {
  accessToken: string | undefined;
  isPrivate: boolean;
  broadcast: { self: boolean; ack: boolean; replay: { since: number; limit: number } | undefined; tellsReady: boolean };
  presence: { enabled: boolean; key: string };
  changes: ChangeSpec[];
}

const MAX_CHANGE_SPECS = 100;
const MAX_REPLAYED = 25;
const EVENTS = ['*', 'INSERT', 'UPDATE', 'DELETE'] as const;

type Fields = Record<string, unknown>;
const fields = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Parses the payload. Returns a string if it is invalid: the reason. */
export function readJoin(payload: unknown): JoinConfig | string {
  const join = fields(payload);
  const config = fields(join.config);
  const broadcast = fields(config.broadcast);
  const presence = fields(config.presence);
  const requested = Array.isArray(config.postgres_changes)
    ? config.postgres_changes.filter((spec) => spec !== null)
    : [];
  if (requested.length > MAX_CHANGE_SPECS) return `config.postgres_changes has more than ${MAX_CHANGE_SPECS} entries`;
  const changes: ChangeSpec[] = [];
  for (const spec of requested) {
    const read = readChangeSpec(fields(spec));
    if (typeof read === 'string') return read;
    changes.push(read);
  }
  const isPrivate = config.private === true;
  const replay = readReplay(broadcast.replay, isPrivate);
  if (typeof replay === 'string') return replay;
  return {
    accessToken: text(join.access_token) ?? text(join.user_token),
    isPrivate,
    broadcast: {
      self: broadcast.self === true,
      ack: broadcast.ack === true,
      replay,
      tellsReady: broadcast.replication_ready === true,
    },
    presence: { enabled: presence.enabled === true, key: text(presence.key)?.slice(0, 255) ?? crypto.randomUUID() },
    changes,
  };
}

function readReplay(replay: unknown, isPrivate: boolean) {
  if (replay === undefined || replay === null) return undefined;
  if (!isPrivate) return 'UnableToReplayMessages: Replay is not allowed for public channels';
  const { since, limit = MAX_REPLAYED } = fields(replay);
  const fits = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0;
  if (!fits(since) || !fits(limit)) return 'UnableToReplayMessages: Replay params are not valid';
  return { since, limit: Math.min(Math.floor(limit), MAX_REPLAYED) };
}

function readChangeSpec(params: Fields): ChangeSpec | string {
  const event = (text(params.event) ?? '*').toUpperCase();
  if (!EVENTS.includes(event as never)) return `config.postgres_changes: event is one of ${EVENTS.join(', ')}`;
  const select = params.select;
  if (select !== undefined && !(Array.isArray(select) && select.every((name) => typeof name === 'string'))) {
    return 'config.postgres_changes: select is a list of column names';
  }
  const texts = KNOWN.filter((name) => typeof params[name] === 'string').map((name) => [name, params[name]]);
  const known = { ...Object.fromEntries(texts), ...(select === undefined ? {} : { select }) };
  return {
    params: known,
    id: hash(JSON.stringify(known)),
    event: event as ChangeSpec['event'],
    schema: text(params.schema) ?? 'public',
    table: text(params.table) ?? '*',
    filter: text(params.filter),
    select: select as string[] | undefined,
  };
}

/** Known members of a requested change; other members are dropped. */
const KNOWN = ['event', 'schema', 'table', 'filter'];

/** FNV-1a, 32 bits, never 0, because clients treat 0 as no id. */
function hash(value: string): number {
  let result = 0x811c9dc5;
  for (let at = 0; at < value.length; at++) {
    result = Math.imul(result ^ value.charCodeAt(at), 0x01000193);
  }
  return result >>> 0 || 1;
}
