/** Limits of what the outbox stores, on a real database. */
import { MikroORM } from '@mikro-orm/postgresql';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openPlatformDatabase } from '../database/platform-database.js';
import { type NewEvent, UNBOUNDED_EVENTS } from '../outbox/events.js';
import { Outbox } from '../outbox/outbox.js';
import { register, startTestApi, type TestApi } from '../testing.js';
import { DeliveriesRepository } from './deliveries.repository.js';

let api: TestApi;
let orm: MikroORM;
let outbox: Outbox;
let id: number;

test.before(async () => {
  api = await startTestApi();
  const { token } = await register(api);
  id = (await api.call('POST', '/projects', { token, json: { name: 'bounded' } })).body.id;
  // Events are added by this test alone.
  await api.stop();
  orm = await openPlatformDatabase(api.settings.databaseUrl, pino({ level: 'silent' }));
  outbox = new Outbox(orm, api.settings);
});
test.after(async () => {
  await orm?.close();
  await api?.close();
});
test.before.each(async () => {
  await api.onPlatform('delete from platform.notification_events');
  await api.onPlatform('delete from platform.notification_channels');
});

const webhook = (types: string[]) =>
  api.onPlatform(
    `insert into platform.notification_channels (project_id, kind, url, events, secret)
     values ($1, 'webhook', 'https://example.com/', $2, 'sealed')`,
    [id, types],
  );
const add = (event: Pick<NewEvent, 'key' | 'type'> & Partial<NewEvent>) =>
  orm.em
    .fork()
    .transactional((em) =>
      outbox.addForProject(em, id, { mail: false, slack: false }, { at: new Date(), data: {}, ...event }),
    );
const keys = async () =>
  (await api.onPlatform('select key from platform.notification_events order by key')).map(({ key }) => key);

test('an event is stored without a channel unless it is only for channels', async () => {
  await add({ key: 'build/1', type: 'deploy.failed' });
  await add({ key: 'form/1', type: 'form.received', isOnlyForChannels: true });
  await webhook(['form.received']);
  await add({ key: 'form/2', type: 'form.received', isOnlyForChannels: true });
  assert.equal(await keys(), ['build/1', 'form/2']);
});

test('a known key adds neither an event nor a delivery', async () => {
  await webhook(['deploy.failed']);
  const added = [await add({ key: 'one', type: 'deploy.failed' }), await add({ key: 'one', type: 'deploy.failed' })];
  assert.equal(added, [true, false]);
  assert.is((await api.onPlatform('select id from platform.notification_deliveries')).length, 1);
});

test('a channel on which 10,000 messages wait gets no further one', async () => {
  await webhook(['deploy.failed']);
  await api.onPlatform(
    `with made as (
       insert into platform.notification_events (id, key, project_id, type, data, occurred_at, created_at)
       select gen_random_uuid(), 'old/' || n, $1, 'deploy.failed', '{}', now(), now() from generate_series(1, 10000) n
       returning id
     )
     insert into platform.notification_deliveries (event_id, channel_id, next_at)
     select made.id, c.id, now() from made, platform.notification_channels c`,
    [id],
  );
  await add({ key: 'late', type: 'deploy.failed' });
  const late = `select from platform.notification_deliveries d
     join platform.notification_events e on e.id = d.event_id where e.key = 'late'`;
  assert.is((await api.onPlatform(late)).length, 0);
});

test('the newest events of forms are kept, and all that wait or whose keys may come again', async () => {
  for (let count = 1; count <= 5; count += 1) await add({ key: `form/${count}`, type: 'form.received' });
  await add({ key: 'build/1', type: 'deploy.failed' });
  await webhook(['form.received']);
  await add({ key: 'form/6', type: 'form.received' });
  await add({ key: 'form/7', type: 'form.received' });
  await api.onPlatform(
    "update platform.notification_events set created_at = now() - interval '1 hour' where key = 'form/6'",
  );
  await api.onPlatform(
    `update platform.notification_deliveries d set status = 'delivered'
     from platform.notification_events e where e.id = d.event_id and e.key = 'form/7'`,
  );
  await new DeliveriesRepository(orm).trim(UNBOUNDED_EVENTS, 2);
  assert.equal(await keys(), ['build/1', 'form/5', 'form/6', 'form/7']);
});

test.run();
