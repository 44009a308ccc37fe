/** The program of the API server. */
import { runProgram } from '@slipway/program';
import { pino } from 'pino';
import { startApiServer } from './server.js';
import { readSettings } from './settings.js';

await runProgram(
  'apiserver',
  () => readSettings(process.env),
  async ({ level, ...settings }, onFatal) => {
    const log = pino({ level, name: 'apiserver' });
    const { url, close } = await startApiServer({ ...settings, log, onFatal });
    return { close, ready: { ready: true, url } };
  },
);
