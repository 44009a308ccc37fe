/** REST as a program of its own: PostgREST's environment, and its admin server for probes, until it is told to stop. */
import { pino } from 'pino';
import { type Refusal, restTokenRefusal } from '../gateway/refusals.js';
import { endRequests, listen } from '../listening.js';
import { createRestService } from '../rest/index.js';
import { createProbes } from './probes.js';
import { type Running, runProgram } from './program.js';
import { readServiceSettings } from './rest-settings.js';
import { createServiceServer } from './server.js';

/** PostgREST's response if there is no anonymous role. */
const NO_TOKEN: Refusal = {
  status: 401,
  body: { code: 'PGRST302', details: null, hint: null, message: 'Anonymous access is disabled' },
  headers: { 'WWW-Authenticate': 'Bearer' },
};

await runProgram('rest', async () => startRest(process.env));

async function startRest(environment: NodeJS.ProcessEnv): Promise<Running> {
  const { tenant, options, anonymous, logLevel, ignored, ...at } = readServiceSettings(environment);
  const log = pino({ level: logLevel });
  for (const { name, reason } of ignored) log.warn({ name, reason }, 'malformed setting ignored');
  const service = createRestService(options);
  const server = createServiceServer({
    tenant,
    service,
    anonymous,
    refusalOf: (problem) => (problem === 'no-token' ? NO_TOKEN : restTokenRefusal(problem)),
    log,
  });
  const url = await listen(server, at.listen);
  const probes = at.adminListen === undefined ? undefined : createProbes(server, url);
  const admin = probes && (await listen(probes, at.adminListen as string));
  log.info({ url, admin }, 'rest serves');
  return {
    close: async () => {
      await endRequests(server);
      if (probes) await endRequests(probes);
      await service.close();
    },
  };
}
