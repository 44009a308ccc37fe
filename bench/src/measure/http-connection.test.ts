import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseAnswer } from './http-connection.js';

const parse = (text: string) => {
  const answer = parseAnswer(Buffer.from(text));
  return answer && { status: answer.status, body: answer.body.toString() };
};

test('an answer is read once its whole body is there', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n';
  assert.is(parse('HTTP/1.1 200 OK\r\nConte'), undefined);
  assert.is(parse(`${head}hell`), undefined);
  assert.equal(parse(`${head}hello`), { status: 200, body: 'hello' });
});

test('a body in chunks is put together, whatever its bytes', () => {
  const head = 'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n';
  assert.is(parse(`${head}3\r\nab`), undefined);
  assert.is(parse(`${head}3\r\na\r\n\r\n`), undefined);
  assert.equal(parse(`${head}3\r\na\r\n\r\n2\r\nbc\r\n0\r\n\r\n`), { status: 201, body: 'a\r\nbc' });
});

test('an answer without content has no body', () => {
  assert.equal(parse('HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n'), { status: 204, body: '' });
});

test.run();
