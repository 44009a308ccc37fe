/** Runs the egress proxy of builds as a program. */
import { runProgram } from '@slipway/program';
import { pino } from 'pino';
import { startBuildEgress } from './server.js';
import { readEgressSettings } from './settings.js';

await runProgram(
  'build-egress',
  () => readEgressSettings(process.env),
  async (settings) => {
    const log = pino({ level: settings.logLevel });
    const { url, close } = await startBuildEgress(settings, log);
    log.info({ url }, 'egress proxy of builds started');
    return { close };
  },
);
