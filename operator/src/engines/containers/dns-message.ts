/**
 * Reads as much of DNS messages (RFC 1035) as a forwarder must know: the question, and the addresses of a response. In:
 * messages of containers and of servers, both of which may be hostile. Out: their parts, or undefined.
 */

/** A message as large as one that every resolver accepts by UDP. */
export const MOST_OF_QUERY = 1232;

export interface Question {
  /** In lower case, without the last dot. */
  name: string;
  type: number;
  /** The bytes of the question, which a response repeats. */
  bytes: Buffer;
}

const HEADER = 12;
const TYPES = { A: 1, AAAA: 28, IXFR: 251, AXFR: 252 } as const;
const MOST_OF_NAME = 255;
const RESPONSE = 0x8000;
const OPCODE = 0x7800;
const RECURSION_DESIRED = 0x0100;
const RECURSION_AVAILABLE = 0x0080;
export const CODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;

/** Returns the question of a query. Undefined: it is no query with one question, or one for a whole zone. */
export function questionOf(message: Buffer): Question | undefined {
  if (message.length < HEADER || (message.readUInt16BE(2) & (RESPONSE | OPCODE)) !== 0) return undefined;
  const question = readQuestion(message);
  return question && question.type !== TYPES.AXFR && question.type !== TYPES.IXFR ? question : undefined;
}

/** True if the message responds to the question with this id. */
export function responds(message: Buffer, id: number, question: Question): boolean {
  if (message.length < HEADER || message.readUInt16BE(0) !== id) return false;
  if ((message.readUInt16BE(2) & RESPONSE) === 0) return false;
  const repeated = readQuestion(message);
  return repeated !== undefined && repeated.name === question.name && repeated.type === question.type;
}

/** Returns the addresses of all records. Undefined: the message is not well-formed. */
export function addressesIn(message: Buffer): string[] | undefined {
  const question = readQuestion(message);
  if (!question) return undefined;
  const records = message.readUInt16BE(6) + message.readUInt16BE(8) + message.readUInt16BE(10);
  const addresses: string[] = [];
  let at = HEADER + question.bytes.length;
  for (let record = 0; record < records; record += 1) {
    const start = endOfName(message, at);
    if (start === undefined || start + 10 > message.length) return undefined;
    const [type, length] = [message.readUInt16BE(start), message.readUInt16BE(start + 8)];
    at = start + 10 + length;
    if (at > message.length) return undefined;
    const data = message.subarray(start + 10, at);
    if (type === TYPES.A && length === 4) addresses.push(data.join('.'));
    if (type === TYPES.AAAA && length === 16) addresses.push((data.toString('hex').match(/.{4}/g) ?? []).join(':'));
  }
  return addresses;
}

/** Returns a response to the query, without records. */
export function emptyResponse(query: Buffer, question: Question, code: number): Buffer {
  const header = Buffer.alloc(HEADER);
  header.writeUInt16BE(query.readUInt16BE(0), 0);
  const asked = query.readUInt16BE(2) & RECURSION_DESIRED;
  header.writeUInt16BE(RESPONSE | asked | RECURSION_AVAILABLE | code, 2);
  header.writeUInt16BE(1, 4);
  return Buffer.concat([header, question.bytes]);
}

/** Returns a copy of the message with another id. */
export function withId(message: Buffer, id: number): Buffer {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(id, 0);
  return copy;
}

function readQuestion(message: Buffer): Question | undefined {
  if (message.length < HEADER || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = HEADER;
  for (;;) {
    const length = message[at];
    // A name that refers to another place is at least useless in a question.
    if (length === undefined || length > 63 || at - HEADER + length > MOST_OF_NAME) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString('latin1', at, at + length).toLowerCase());
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  return { name: labels.join('.'), type: message.readUInt16BE(at), bytes: message.subarray(HEADER, at + 4) };
}

/** Returns the place behind the name at `at`. A reference to another place ends a name. */
function endOfName(message: Buffer, at: number): number | undefined {
  for (let place = at; place - at <= MOST_OF_NAME; ) {
    const length = message[place];
    if (length === undefined) return undefined;
    if (length === 0) return place + 1;
    if (length >= 0xc0) return place + 2;
    place += 1 + length;
  }
  return undefined;
}
