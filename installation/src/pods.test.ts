import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { podOf, readPodUrls } from './pods.js';

test('each project has one pod, the same for every program, and projects are spread over all pods', () => {
  const urls = ['http://a:1', 'http://b:1', 'http://c:1'];
  const places = Array.from({ length: 300 }, (_, n) => podOf(`ref-${n}`, urls));
  assert.equal(
    places,
    Array.from({ length: 300 }, (_, n) => podOf(`ref-${n}`, urls.toReversed())),
  );
  for (const url of urls) assert.ok(places.filter((place) => place === url).length > 50);
  const fewer = Array.from({ length: 300 }, (_, n) => podOf(`ref-${n}`, urls.slice(0, 2)));
  for (const [n, place] of places.entries()) if (place !== urls[2]) assert.is(fewer[n], place);
});

test('the error for a list with a malformed URL names that URL and the variable', () => {
  assert.equal(readPodUrls('PODS', 'http://a:1, http://b:1,'), ['http://a:1', 'http://b:1']);
  assert.equal(readPodUrls('PODS', undefined), []);
  for (const wrong of ['a:1', 'https://a:1', 'http://a:1/path', 'http://user@a:1']) {
    assert.throws(() => readPodUrls('PODS', `http://a:1,${wrong}`), new RegExp(`^PODS is a list .*${wrong}`));
  }
});

test.run();
