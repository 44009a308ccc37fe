/** Conformance cases of unreadable bodies, unknown callers, and concurrent writers. */
import * as assert from 'uvu/assert';
import type { Cases } from './suite.js';
import type { RequestOptions } from './target.js';

const TEXTS: Record<string, { options: RequestOptions; code: number; reason: string }> = {
  'malformed JSON is refused': { options: { raw: '{"metadata":' }, code: 400, reason: 'BadRequest' },
  'JSON that is not an object is refused': { options: { raw: '[1]' }, code: 400, reason: 'BadRequest' },
  'JSON nested too deep is refused': {
    options: { raw: `{"metadata":{"name":"deep"},"data":${'['.repeat(20_000)}${']'.repeat(20_000)}}` },
    ...{ code: 400, reason: 'BadRequest' },
  },
  'a body of an unknown type is refused': {
    options: { raw: '<a/>', type: 'text/xml' },
    ...{ code: 415, reason: 'UnsupportedMediaType' },
  },
};

const PATHS = ['/api', '/apis', '/api/v1', '/api/v1/namespaces', '/api/v1/secrets', '/openapi/v3', '/nothing'];
const PAGED = 500;

export const limits: Cases = (test, { target, configMap, configMaps, widget, widgets }) => {
  for (const [promise, { options, code, reason }] of Object.entries(TEXTS)) {
    test(promise, async () => {
      const { body, code: answered } = await target.send('POST', configMaps, undefined, options);
      assert.equal([answered, body?.kind, body?.reason], [code, 'Status', reason]);
    });
  }

  test('a response is 406 when its format is not available', async () => {
    const { code } = await target.send('GET', configMaps, undefined, { headers: { accept: 'text/html' } });
    assert.is(code, 406);
  });

  test('a request on any path is 401 when its token is wrong', async () => {
    const headers = { authorization: 'Bearer wrong' };
    for (const path of PATHS) {
      const { code, body } = await target.send('GET', path, undefined, { anonymous: true, headers });
      assert.equal([code, body?.reason], [401, 'Unauthorized'], path);
    }
  });

  test('exactly one of several writers with the same resourceVersion wins', async () => {
    const { body: first } = await target.send('POST', widgets, widget('raced'));
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        target.send('PUT', `${widgets}/raced`, { ...first, spec: { size: index + 2 } }),
      ),
    );
    const codes = answers.map(({ code }) => code).sort();
    assert.equal(codes, [200, ...Array<number>(19).fill(409)]);
  });

  test('all pages of a list are of one revision while others write', async () => {
    const name = (index: number) => `page-${String(index).padStart(4, '0')}`;
    const make = (index: number) =>
      target.send('POST', configMaps, configMap('', { metadata: { name: name(index), labels: { paged: 'yes' } } }));
    for (let start = 0; start < PAGED; start += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, index) => make(start + index)));
    }
    const seen: string[] = [];
    let going = '';
    for (let page = 0; page === 0 || going !== ''; page++) {
      const query = `labelSelector=paged%3Dyes&limit=37&continue=${encodeURIComponent(going)}`;
      const { code, body } = await target.send('GET', `${configMaps}?${query}`);
      assert.is(code, 200);
      for (const { metadata } of body.items) seen.push(metadata.name);
      going = body.metadata.continue ?? '';
      await Promise.all([make(PAGED + page), target.send('DELETE', `${configMaps}/${name(PAGED - 1 - page)}`)]);
    }
    assert.equal(
      seen,
      Array.from({ length: PAGED }, (_, index) => name(index)),
    );
  });
};
