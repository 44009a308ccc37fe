/** JSON decoders of the data plane, each with its bound, for tests that attack them. */
import { ONE_TURN } from '@slipway/program';
import type { Decoder } from '@slipway/program/decoders.testing.js';
import type { Steps } from '../bounds/turns.js';
import { MAX_BODY_BYTES } from '../http/request-body.js';
import { MAX_MESSAGE_BYTES } from '../services/realtime/limits.js';
import { Broadcast, decodeLargeMessage, VERSIONS } from '../services/realtime/protocol/messages.js';
import { catalogueOf } from '../services/rest/catalogue/load.js';
import { restSettings } from '../services/rest/catalogue/settings.js';
import { parseBody } from '../services/rest/request/body.js';
import { decodedRows } from '../services/storage/database.js';

const MIB = 1024 * 1024;
const nothing = () => undefined;
const BODY = { bytes: MAX_BODY_BYTES, depth: 512, values: Number.POSITIVE_INFINITY };

const body = (type: string): Decoder => ({ bound: BODY, decode: (text) => parseBody(text, type, true) });

/** Decoders that decode all of their text in one turn. */
export const OF_ONE_TURN: Record<string, Decoder> = {
  'row of storage': {
    bound: { ...ONE_TURN, bytes: 1.125 * MIB, depth: 128 },
    decode: (text) => decodedRows(text, nothing),
  },
};

/** Decoders that decode their text in many turns. */
export const OF_MANY_TURNS: Record<string, Decoder> = {
  'message of realtime': {
    bound: { bytes: MAX_MESSAGE_BYTES, depth: 510, values: 29_990 },
    decode: (text) => broadcastOf(text),
  },
  'JSON body': body('application/json'),
  form: body('application/x-www-form-urlencoded'),
  CSV: body('text/csv'),
  'rows of storage': {
    bound: { bytes: 8 * MIB, depth: 128, values: Number.POSITIVE_INFINITY },
    decode: (text) => decodedRows(inRows(text, MIB), nothing),
  },
  catalogue: {
    bound: { bytes: 16 * MIB, depth: 16, values: Number.POSITIVE_INFINITY },
    decode: (text) => catalogueOf(text, restSettings({}, ['public'])),
  },
};

/** Decodes a message, and builds the frames for each client of its topic. */
function* broadcastOf(text: Buffer): Steps<unknown> {
  const [head, tail] = ['["1","2","realtime:x","broadcast",', ']'].map((part) => Buffer.from(part));
  const data = Buffer.concat([head as Buffer, text, tail as Buffer]);
  const message = yield* decodeLargeMessage('2.0.0', data, false);
  if (!message) return undefined;
  const broadcast = Broadcast.ofJson(message.topic, message.json);
  for (const version of VERSIONS) broadcast.frame(version);
  return message;
}

/** Ends a row after a fixed number of bytes, at any position. */
function inRows(text: Buffer, bytes: number): Buffer {
  const rows = Buffer.from(text);
  for (let at = bytes; at < rows.length; at += bytes) rows[at] = 0x1e;
  return rows;
}
