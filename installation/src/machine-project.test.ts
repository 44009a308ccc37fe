import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type MachineProject, machineProjectText, readMachineProject } from './machine-project.js';

const login = (user: string) => ({
  host: '/run/postgresql',
  port: 5432,
  database: 'p-shop',
  user,
  password: `password of ${user}`,
});

const SHOP: MachineProject = {
  revision: '7',
  ref: 'shop',
  type: 'dedicated',
  plan: 'pro',
  services: ['rest', 'auth', 'realtime', 'storage', 'functions'],
  url: 'https://shop.example.com',
  jwt: { secret: 'the present secret', nextSecret: 'the next secret' },
  apiKeys: { anon: 'anon key', serviceRole: 'service key' },
  logins: { authenticator: login('authenticator'), authAdmin: login('auth_admin'), owner: login('owner') },
  replication: { slot: 'realtime_shop', password: 'password of replication' },
  authConfig: { GOTRUE_JWT_EXP: '1800' },
  environment: { GREETING: 'hello' },
};

const changed = (member: string, value: unknown): string => {
  const project = structuredClone(SHOP) as Record<string, unknown>;
  const path = member.split('.');
  const last = path.pop() as string;
  const parent = path.reduce((at, name) => at[name] as Record<string, unknown>, project);
  parent[last] = value;
  return JSON.stringify(project);
};

const messageOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('no error');
};

test('the project that is read is the project that was written', () => {
  assert.equal(readMachineProject(machineProjectText(SHOP)), SHOP);
});

test('a member of a later release is ignored', () => {
  assert.is(readMachineProject(changed('later', { more: 1 })).ref, 'shop');
  assert.is(readMachineProject(changed('logins.owner.later', 'more')).ref, 'shop');
  assert.ok(readMachineProject(changed('services', ['rest', 'later'])).services.includes('later'));
});

for (const [member, value] of [
  ['ref', 'Secret-Value'],
  ['revision', 4711],
  ['plan', 'secret-value'],
  ['url', 'ftp://secret-value'],
  ['url', 'https://secret-value/other'],
  ['jwt.secret', ''],
  ['jwt.previousSecret', ''],
  ['apiKeys.anon', undefined],
  ['logins.owner.port', 'secret-value'],
  ['logins.authAdmin', 'secret-value'],
  ['authConfig.GOTRUE_SMTP_PASS', ['secret-value']],
  ['environment', undefined],
] as const) {
  test(`the error for a malformed ${member} names it and not its value (${JSON.stringify(value)})`, () => {
    const message = messageOf(() => readMachineProject(changed(member, value)));
    assert.ok(message.includes(member.split('.').at(-1) as string), message);
    assert.not.match(message, /secret-value|4711/i);
  });
}

test('text that is no JSON is rejected without its content', () => {
  const message = messageOf(() => readMachineProject('{"jwt":{"secret":"secret-value'));
  assert.is(message, 'the text is not valid JSON');
});

test('no malformed project is written', () => {
  assert.match(
    messageOf(() => machineProjectText({ ...SHOP, jwt: { secret: '' } })),
    /^jwt\.secret /,
  );
});

test.run();
