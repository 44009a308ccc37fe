import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseAnswer } from './http-connection.js';

const parse = (text: string) => {
  const answer = parseAnswer(Buffer.from(text));
  return answer && { status: answer.status, body: answer.body.toString() };
};

test('a response is returned once its whole body has arrived', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n';
  assert.is(parse('HTTP/1.1 200 OK\r\nConte'), undefined);
  assert.is(parse(`${head}hell`), undefined);
  assert.equal(parse(`${head}hello`), { status: 200, body: 'hello' });
});

test('a chunked body of any bytes is returned as one body', () => {
  const head = 'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n';
  assert.is(parse(`${head}3\r\nab`), undefined);
  assert.is(parse(`${head}3\r\na\r\n\r\n`), undefined);
  assert.equal(parse(`${head}3\r\na\r\n\r\n2\r\nbc\r\n0\r\n\r\n`), { status: 201, body: 'a\r\nbc' });
});

test('a 204 response has an empty body', () => {
  assert.equal(parse('HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n'), { status: 204, body: '' });
});

test.run();
