/**
 * A KubeConfig whose requests share kept connections. client-node makes a dispatcher for each request, so each request
 * opens a TLS connection that stays open until it is idle for long; at some 30 requests a second that is more than the
 * server's limit of connections.
 */
import type https from 'node:https';
import { KubeConfig, type RequestContext } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';

const POOL = {
  connections: 32,
  allowH2: false,
  // Below every server's own limit, so that the server does not close a connection while a request is on its way.
  keepAliveTimeout: 4_000,
  keepAliveMaxTimeout: 30_000,
};

export class PooledKubeConfig extends KubeConfig {
  #dispatcher: Promise<Dispatcher | undefined> | undefined;

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    await super.applySecurityAuthentication(context);
    // A failure is not kept: the next request tries again.
    this.#dispatcher ??= this.#connect().catch((error) => {
      this.#dispatcher = undefined;
      throw error;
    });
    const dispatcher = await this.#dispatcher;
    if (dispatcher) context.setDispatcher(dispatcher);
  }

  async close(): Promise<void> {
    await (await this.#dispatcher?.catch(() => undefined))?.destroy();
  }

  /** Undefined: client-node's own dispatcher is used, as for a SOCKS proxy. */
  async #connect(): Promise<Dispatcher | undefined> {
    const settings: https.RequestOptions = {};
    await this.applyToHTTPSOptions(settings);
    const options = this.createDispatcherOptions(this.getCurrentCluster(), settings as https.AgentOptions);
    switch (options.type) {
      case 'agent':
        return new Agent({ ...POOL, connect: options.connect as NonNullable<Agent.Options['connect']> });
      case 'none':
        return new Agent(POOL);
      case 'proxy':
        return new ProxyAgent({
          ...POOL,
          uri: options.uri,
          requestTls: options.requestTls as NonNullable<ProxyAgent.Options['requestTls']>,
        });
      case 'socks':
        return undefined;
    }
  }
}
