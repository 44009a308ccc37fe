import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { secretValuesOf } from './secret-values.js';

test('variables of at least 8 characters are secrets, unless their name says that they are public', () => {
  const secrets = { API_KEY: '12345678', MY_VITE_KEY: 'not-public', vite_key: 'not-public-either' };
  const shown = {
    MODE: 'debug12',
    VITE_URL: 'https://api.example.com',
    PUBLIC_KEY: 'pk_live_1234',
    NEXT_PUBLIC_KEY: 'pk_live_1234',
    NUXT_PUBLIC_KEY: 'pk_live_1234',
    REACT_APP_KEY: 'pk_live_1234',
  };
  assert.equal(secretValuesOf({ ...secrets, ...shown }), Object.values(secrets));
});

test.run();
