/**
 * Program with one deployed function for `kill.test.ts` to kill. Gets a home on its command line, and prints the
 * function's URL.
 */
import { startTestFunctions } from './testing.js';

const [home = '', deploy] = process.argv.slice(2);
const functions = await startTestFunctions({}, home);
if (deploy === 'deploy') {
  await functions.deploy(
    'kept',
    'pid',
    `Deno.serve(async (request) => { if ((await request.text()) === 'spin') for (;;); ` +
      'return new Response(String(Deno.pid)); });',
  );
}
process.send?.(`${functions.url('kept')}/pid`);
