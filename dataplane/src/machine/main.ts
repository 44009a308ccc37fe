import { runProgram } from '@slipway/program';
import { startUnit } from './index.js';
import { readUnitSettings } from './settings.js';

await runProgram(
  'machine-service',
  () => readUnitSettings(process.env),
  async (settings) => {
    const { close } = await startUnit(settings);
    return { close };
  },
);
