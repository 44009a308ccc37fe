/**
 * Accepts entries of forms from the data plane, which has checked them: at a Unix socket on one machine, at a port with
 * a bearer token on a cluster.
 *
 * | route | response |
 * | --- | --- |
 * | `POST /entries` with an entry | 201, 404 (no such form), 507 (no room) or 400 |
 */
import { rm } from 'node:fs/promises';
import type { IncomingMessage, Server } from 'node:http';
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import {
  endRequests,
  type InternalAnswer,
  type JsonBound,
  JsonRefusal,
  parseJson,
  readBounded,
  startInternalServer,
} from '@slipway/program';
import type { Logger } from 'pino';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { LONGEST_NAME, MOST_FIELDS } from './entry-data.js';
import { EntryIntake, type Received, type ReceivedEntry } from './entry-intake.js';

const MOST_OF_BODY: JsonBound = { bytes: 1024 * 1024, depth: 4, values: 8 * MOST_FIELDS };
const STATUSES: Readonly<Record<Received, number>> = { stored: 201, unknown: 404, full: 507 };
const DEADLINE_MS = 10_000;

@Injectable()
export class EntryServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private server: Server | undefined;

  constructor(
    private readonly intake: EntryIntake,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const { forms } = this.settings;
    if (forms === undefined) return;
    this.server = await startInternalServer(forms, {
      answer: (incoming) => this.answer(incoming),
      onError: (err) => this.log.error({ err }, 'entry of a form not stored'),
      requestTimeout: DEADLINE_MS,
    });
  }

  async onApplicationShutdown(): Promise<void> {
    const { server } = this;
    const { forms } = this.settings;
    if (!server) return;
    await endRequests(server);
    if (forms && 'socket' in forms) await rm(forms.socket, { force: true });
  }

  private async answer(incoming: IncomingMessage): Promise<InternalAnswer> {
    if (incoming.method !== 'POST' || incoming.url !== '/entries') return { status: 404 };
    const entry = await bodyOf(incoming);
    return { status: isEntry(entry) ? STATUSES[await this.intake.receive(entry)] : 400 };
  }
}

/** Returns undefined for a body that is too large, or no JSON. */
async function bodyOf(incoming: IncomingMessage): Promise<unknown> {
  try {
    return parseJson(await readBounded(incoming, MOST_OF_BODY.bytes), MOST_OF_BODY);
  } catch (error) {
    if (error instanceof JsonRefusal) return undefined;
    throw error;
  }
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const FLAGS: readonly unknown[] = [null, 'honeypot', 'rate_limit'];

function isEntry(value: unknown): value is ReceivedEntry {
  if (typeof value !== 'object' || value === null) return false;
  const { ref, form, fields, flagged } = value as Record<string, unknown>;
  return (
    typeof ref === 'string' &&
    typeof form === 'string' &&
    NAME.test(form) &&
    FLAGS.includes(flagged) &&
    Array.isArray(fields) &&
    fields.length <= MOST_FIELDS &&
    fields.every(isField)
  );
}

function isField(field: unknown): boolean {
  if (!Array.isArray(field) || field.length !== 2) return false;
  const [name, value] = field as unknown[];
  return (
    isText(name) &&
    name !== '' &&
    name.length <= LONGEST_NAME &&
    (isText(value) || typeof value === 'boolean' || Number.isFinite(value))
  );
}

/** PostgreSQL stores neither null characters nor lone surrogates. */
const isText = (value: unknown): value is string =>
  typeof value === 'string' && !value.includes('\0') && value.isWellFormed();
