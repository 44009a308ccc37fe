import { HttpMethod, RequestContext } from '@kubernetes/client-node';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PooledKubeConfig } from './pooled-kube-config.js';

/** The first read of what a connection needs fails, as when a certificate's file is being replaced. */
class FailingOnce extends PooledKubeConfig {
  reads = 0;

  override async applyToHTTPSOptions(): Promise<void> {
    this.reads += 1;
    if (this.reads === 1) throw new Error('the certificate can not be read');
  }
}

test('a pooled configuration connects again when the first connect failed', async () => {
  const config = new FailingOnce();
  config.loadFromClusterAndUser({ name: 'c', server: 'https://127.0.0.1:1', skipTLSVerify: false }, { name: 'u' });
  const apply = () =>
    config.applySecurityAuthentication(new RequestContext('https://127.0.0.1:1/', HttpMethod.GET)).then(
      () => 'applied',
      (error: Error) => error.message,
    );
  assert.equal(
    [await apply(), await apply(), await apply()],
    ['the certificate can not be read', 'applied', 'applied'],
  );
  assert.is(config.reads, 2);
  await config.close();
});

test.run();
