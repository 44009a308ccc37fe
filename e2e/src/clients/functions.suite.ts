/**
 * Calls the whole public API of an unmodified functions-js at a project's URL. The suite creates and deploys a function
 * over REST, and calls it.
 */
import { FunctionRegion, FunctionsClient } from '@supabase/functions-js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Inventory, Recorder } from './recorder.js';
import type { WalkedProject } from './walked-project.js';

const CLIENT: Inventory<FunctionsClient> = { setAuth: 'works', invoke: 'works' };

/** Code of the function, which returns the received request. `/fails` returns an error of the function. */
const CODE = `
  Deno.serve(async (request) => {
    if (new URL(request.url).pathname.endsWith('/fails')) return new Response('no', { status: 418 });
    const body = await request.text();
    return Response.json({
      method: request.method,
      type: request.headers.get('content-type'),
      region: request.headers.get('x-region'),
      own: request.headers.get('x-own'),
      body,
    });
  });
`;

export function walkFunctions(test: Test, given: () => WalkedProject): void {
  const recorder = new Recorder({ FunctionsClient: CLIENT });
  const newClient = (region?: FunctionRegion) => {
    const { project, platform, headers } = given();
    return recorder.watch(
      new FunctionsClient(`${project.project_url}/functions/v1`, {
        headers: { apikey: headers(project.anon_key).apikey as string },
        customFetch: platform.network.fetch,
        ...(region ? { region } : {}),
      }),
    );
  };

  test('functions-js: a function receives each type of body unchanged, and its responses are returned', async () => {
    const { person, project } = given();
    const path = `/projects/${project.id}/functions`;
    const made = await person.call<{ id: number }>('POST', path, { name: 'echo', code: CODE });
    assert.is(made.status, 201, JSON.stringify(made.body));
    const deployed = await person.call<{ status: string }>('POST', `${path}/${made.body.id}/deploy`);
    assert.equal([deployed.status, deployed.body.status], [200, 'deployed'], JSON.stringify(deployed.body));

    const functions = newClient();
    functions.setAuth(project.anon_key);
    const json = await functions.invoke('echo', { body: { a: 1 }, headers: { 'x-own': 'seen' } });
    assert.is(json.error, null);
    assert.equal([json.data.method, json.data.body, json.data.own], ['POST', '{"a":1}', 'seen']);
    const text = await functions.invoke('echo', { body: 'plain', method: 'PUT', region: FunctionRegion.EuCentral1 });
    assert.equal([text.data.method, text.data.body, text.data.region], ['PUT', 'plain', 'eu-central-1']);
    const bytes = await functions.invoke('echo', { body: new Blob(['bytes']) });
    assert.is(bytes.data.body, 'bytes');
    const form = new FormData();
    form.set('field', 'value');
    assert.match((await functions.invoke('echo', { body: form })).data.type, /^multipart\/form-data/);
    const elsewhere = newClient(FunctionRegion.UsEast1);
    elsewhere.setAuth(project.anon_key);
    const got = await elsewhere.invoke('echo', { method: 'GET' });
    assert.equal([got.data?.method, got.data?.region], ['GET', 'us-east-1']);
  });

  test('functions-js: errors of the function, of the platform and of the network are distinguished', async () => {
    const functions = newClient();
    functions.setAuth(given().project.anon_key);
    const own = await functions.invoke('echo/fails');
    assert.equal([own.error?.name, own.response?.status], ['FunctionsHttpError', 418]);
    assert.is((await functions.invoke('absent')).response?.status, 404);
    const aborted = await functions.invoke('echo', { signal: AbortSignal.abort() });
    assert.is(aborted.error?.name, 'FunctionsFetchError');
    const stranger = newClient();
    stranger.setAuth('no token');
    assert.is((await stranger.invoke('echo')).response?.status, 401);
  });

  test('functions-js: every public method was called above', () => {
    assert.equal(recorder.uncalled(), []);
  });
}
