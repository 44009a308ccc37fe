/** The API as a program. */
import { runProgram } from '@slipway/program';
import { settingsFromEnvironment, startApi } from './index.js';

await runProgram('api', () => settingsFromEnvironment(process.env), startApi);
