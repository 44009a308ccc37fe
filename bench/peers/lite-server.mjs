/**
 * @supabase/lite behind the HTTP server of its own command line. In, over IPC: driver, url, schema, secret. Out: the
 * port.
 */
import { once } from 'node:events';
import { serve } from '@hono/node-server';
import { App } from '@supabase/lite';

async function connect(driver, url) {
  if (driver === 'sqlite')
    return (await import('@supabase/lite/sqlite')).createConnection({ url, ddlDialect: 'postgres' });
  if (driver === 'pglite') return (await import('@supabase/lite/pglite')).createPgliteConnection({ url });
  return (await import('@supabase/lite/postgres')).createPostgresConnection({ url });
}

const [{ driver, url, schema, jwtSecret }] = await once(process, 'message');
const connection = await connect(driver, url);
const app = new App({
  connection,
  auth: { enabled: true, jwt_secret: jwtSecret, email: { enable_confirmations: false } },
});
await app.ensureSystemSchema();
// On Postgres it applies no migrations of its own: there the user brings the schema.
if (driver === 'postgres') await connection.driver.unsafe(schema);
else await app.connection.createMigrator(schema).migrate();

const server = serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request, env) => app.fetch(request, { peerAddress: env.incoming.socket.remoteAddress ?? null }),
});
await once(server, 'listening');
process.send({ port: server.address().port });
process.on('disconnect', () => process.exit());
