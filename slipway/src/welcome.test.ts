import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readSettings } from './settings.js';
import { welcome } from './welcome.js';

const textFor = (environment: Record<string, string>, setupCode?: string) =>
  welcome(readSettings(environment, '/repo'), { kubeconfig: '/repo/.slipway/kubeconfig', setupCode } as never, '1.0');
const passwordIn = (text: string) => /"password":"([^"]*)"/.exec(text)?.[1] ?? '';

test('welcome prints a random password beside the setup code', () => {
  const texts = [1, 2].map(() => textFor({ SLIPWAY_HOST: '0.0.0.0' }, 'the-code'));
  const [one = '', two = ''] = texts.map(passwordIn);
  assert.match(one, /^[\w-]{24}$/);
  assert.is.not(one, two);
  assert.match(texts[0] ?? '', /keep the password/);
});

test('welcome prints a random password when registration is open to a network', () => {
  assert.match(passwordIn(textFor({ SLIPWAY_HOST: '0.0.0.0', SLIPWAY_REGISTRATION: 'open' })), /^[\w-]{24}$/);
});

test('welcome keeps the short command on loopback', () => {
  assert.is(passwordIn(textFor({})), 'a long password');
});

test.run();
