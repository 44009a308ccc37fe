/**
 * REST as a separate program: reads PostgREST's environment, and serves until it is stopped, with an admin server for
 * probes.
 */
import { endRequests, listen, type Running, runProgram } from '@slipway/program';
import { pino } from 'pino';
import { type Refusal } from '../http/refusals.js';
import { restTokenRefusal } from '../identity/token-refusals.js';
import { createRestService } from '../services/rest/index.js';
import { createProbes } from './probes.js';
import { readServiceSettings, type ServiceSettings } from './rest-settings.js';
import { createServiceServer } from './server.js';

/** Response of PostgREST if there is no anonymous role. */
const NO_TOKEN: Refusal = {
  status: 401,
  body: { code: 'PGRST302', details: null, hint: null, message: 'Anonymous access is disabled' },
  headers: { 'WWW-Authenticate': 'Bearer' },
};

await runProgram('rest', () => readServiceSettings(process.env), startRest);

async function startRest(settings: ServiceSettings): Promise<Running> {
  const { tenant, options, anonymous, logLevel, ignored, ...at } = settings;
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
