/** Tests requests of a function to the public URL, as the gateway receives them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestFunctions, type TestFunctions } from './testing.js';

let functions: TestFunctions;
test.before(async () => {
  functions = await startTestFunctions();
});
test.after(() => functions.close());

test('a function’s request to the public URL is forwarded with its project’s ref, whatever its path is', async () => {
  functions.service.onGatewayRequest((incoming, outgoing, ref) => outgoing.end(`${ref} ${incoming.url}`));
  const place = functions.url('neighbour');
  for (const ref of ['evil', 'neighbour']) {
    await functions.deploy(ref, 'ask', `Deno.serve(() => fetch('${place}/x', { headers: { host: 'neighbour' } }));`);
    const received = await (await fetch(`${functions.url(ref)}/ask`)).text();
    assert.is(received, `${ref} /p/neighbour/functions/v1/x`);
  }
});

test.run();
