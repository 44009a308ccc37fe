/**
 * For tests: a program with one deployed function that `kill.test.ts` can kill; told a home on its command line, it
 * says where the function answers.
 */
import { startTestFunctions } from './testing.js';

const [home = '', deploy] = process.argv.slice(2);
const functions = await startTestFunctions({}, home);
if (deploy === 'deploy') {
  await functions.deploy(
    'kept',
    'pid',
    `Deno.serve(async (request) => { if ((await request.text()) === 'spin') for (;;); return new Response(String(Deno.pid)); });`,
  );
}
process.send?.(`${functions.url('kept')}/pid`);
