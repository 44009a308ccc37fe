/** Compares the scenarios of field ownership with a real kube-apiserver. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Call, establish, type ReferenceServer, referenceServer } from '../schema/reference-server.js';
import { API_VERSION, CRD, expectSteps, ours, run, SCENARIOS, type Server, sent } from './scenarios.testing.js';

const reference = referenceServer();
if (reference) {
  testOn(reference);
  test.after(() => reference.close());
}

function testOn({ call }: ReferenceServer): void {
  test('the real kube-apiserver has the same owners in every scenario', async () => {
    try {
      await establish(call, CRD);
      for (const [index, [promise, steps]] of Object.entries(SCENARIOS).entries()) {
        const real = await run(theirs(call), `object-${index}`, steps);
        expectSteps(steps, real);
        assert.equal(await run(ours, 'object', steps), real, promise);
      }
    } finally {
      await call('DELETE', `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${CRD.metadata.name}`);
    }
  });
}

function theirs(call: Call): Server {
  return async (name, step, live) => {
    const [operation, manager] = step.by.split(' ');
    const base = `/apis/${API_VERSION}/fields`;
    const object = sent(name, step, live);
    const query = `fieldManager=${manager}`;
    const { code, body } =
      operation === 'create'
        ? await call('POST', `${base}?${query}`, object)
        : operation === 'update'
          ? await call('PUT', `${base}/${name}?${query}`, object)
          : await call(
              'PATCH',
              `${base}/${name}?${query}&force=${operation === 'force'}`,
              object,
              'application/apply-patch+yaml',
            );
    if (code === 409) return { conflict: String(body.message) };
    assert.ok(code < 300, JSON.stringify(body));
    return { object: body };
  };
}
test.run();
