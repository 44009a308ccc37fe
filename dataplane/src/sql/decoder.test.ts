/** Tests that large messages of a Postgres server are received in short turns of the event loop. */
import { medianOfFive, startWatch, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { MessageReader } from './decoder.js';

const MIB = 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

function message(body: Buffer): Buffer {
  const header = Buffer.from('D\0\0\0\0');
  header.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
}

function* chunksOf(stream: Buffer, bytes: number): Generator<Buffer> {
  for (let at = 0; at < stream.length; at += bytes) yield stream.subarray(at, at + bytes);
}

test(`a message of 64 MiB takes at most ${TURN_MS} ms of processor time in one turn`, () => {
  const body = Buffer.alloc(64 * MIB, 'body');
  const stream = message(body);
  const took = medianOfFive(() => {
    let received: Buffer | undefined;
    const times: number[] = [];
    const reader = new MessageReader(
      (_, bytes) => {
        received = bytes;
      },
      () => undefined,
    );
    for (const chunk of chunksOf(stream, CHUNK_BYTES)) {
      const elapsedMs = startWatch();
      reader.push(chunk);
      times.push(elapsedMs());
    }
    assert.ok(received?.equals(body));
    return Math.max(...times);
  });
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test('large and small messages are received whole or up to a limit, however their bytes are split', () => {
  const bodies = [300_000, 3, 1_000_000, 700_000, 0, 20].map((length, i) => Buffer.alloc(length, `${i}`));
  const stream = Buffer.concat(bodies.map(message));
  const most = (length: number) => (length === 1_000_000 ? 10 : length === 700_000 ? 400_000 : undefined);
  for (const size of [1_021, 65_536, 299_999, 300_005, 1_300_000, stream.length]) {
    const seen: Buffer[] = [];
    const announced: number[] = [];
    const reader = new MessageReader(
      (_, body) => void seen.push(body),
      (_, length) => {
        announced.push(length);
        return most(length);
      },
    );
    for (const chunk of chunksOf(stream, size)) reader.push(chunk);
    assert.equal(
      announced,
      bodies.map(({ length }) => length),
    );
    const kept = bodies.map((body) => body.subarray(0, most(body.length)));
    assert.ok(seen.length === kept.length && kept.every((body, i) => seen[i]?.equals(body)), `by ${size}`);
  }
});

test.run();
