import { runProgram } from '@slipway/program';
import { startDataplane } from './index.js';
import { readSettings } from './settings.js';

await runProgram(
  'dataplane',
  () => readSettings(process.env),
  async (settings) => {
    const { close } = await startDataplane(settings);
    return { close };
  },
);
