import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { descriptionOf } from './isolation.js';

test('the description names missing root rights, namespaces and filter of system calls', () => {
  const description = descriptionOf('permissions-only', false);
  assert.match(description, /Deno’s permissions alone .*; the system filters no sockets/);
  assert.not.match(descriptionOf('permissions-only', true), /filters no sockets/);
});

test.run();
