/** Runs the operator as a program, until it may no longer lead. */
import { runProgram } from '@slipway/program';
import { startOperator } from './index.js';
import { readSettings } from './settings.js';

await runProgram(
  'operator',
  () => readSettings(process.env),
  (settings) => startOperator(settings),
);
