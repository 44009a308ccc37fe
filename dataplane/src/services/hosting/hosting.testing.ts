/** Gateway with the sites of a folder, for tests of hosting. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { refOfPreview, Sites } from '@slipway/sites';
import { type Logger, pino } from 'pino';
import { createGateway, type GatewayLimits } from '../../gateway/server.js';
import type { EntryPlace } from './forms/entry-store.js';
import { createHosting } from './index.js';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  text: string;
}

const LIMITS = { files: 20_000, fileBytes: 25 * 1024 * 1024, totalBytes: 1024 ** 3 };

/** Gateway whose every ref has a site. Its creator calls `close`. */
export class SiteWorld {
  #deploys = 0;

  private constructor(
    readonly folder: string,
    readonly sites: Sites,
    private readonly gateway: Server,
    private readonly hosting: { close(): void },
  ) {}

  /** A site whose ref begins with `forms` accepts forms. */
  static async open(
    forms?: EntryPlace,
    { limits = {}, log = pino({ level: 'silent' }) }: { limits?: Partial<GatewayLimits>; log?: Logger } = {},
  ): Promise<SiteWorld> {
    const folder = await mkdtemp(path.join(tmpdir(), 'hosting-'));
    const sites = new Sites(path.join(folder, 'sites'));
    const hosting = createHosting({ folder: sites.folder, forms, log });
    const gateway = createGateway({
      publicUrl: 'http://localhost:4000',
      allowedHosts: [],
      tenant: (ref) =>
        refOfPreview(ref) === undefined
          ? {
              kind: 'site',
              ref,
              revision: '1',
              suspended: ref === 'suspended',
              formsEnabled: ref.startsWith('forms'),
              type: 'frontend',
              siteUrl: `http://${ref}.localhost:4000`,
            }
          : undefined,
      complete: () => true,
      services: {},
      hosting,
      rateLimit: 0,
      limits,
      management: { forward: (_, outgoing) => void outgoing.end('platform'), close: () => undefined },
      log,
    });
    await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
    return new SiteWorld(folder, sites, gateway, hosting);
  }

  get port(): number {
    return (this.gateway.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.gateway.closeAllConnections();
    this.gateway.close();
    this.hosting.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Publishes files by path. Returns the id of the deployment. */
  async publish(ref: string, files: Record<string, string | Buffer>): Promise<string> {
    const output = await mkdtemp(path.join(this.folder, 'output-'));
    for (const [name, content] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(output, name)), { recursive: true });
      await writeFile(path.join(output, name), content);
    }
    this.#deploys += 1;
    const { id } = await this.sites.publish(ref, `build-${this.#deploys}`, output, LIMITS);
    return id;
  }

  async deploy(ref: string, files: Record<string, string | Buffer>): Promise<string> {
    const id = await this.publish(ref, files);
    await this.sites.goLive(ref, id);
    return id;
  }

  /** Sends a request with the path unchanged. */
  get(ref: string, target: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest({
        host: '127.0.0.1',
        port: this.port,
        path: target,
        method,
        headers: { host: `${ref}.localhost:4000`, ...headers },
        agent: false,
      });
      outgoing.on('error', reject).on('response', async (answer) => {
        const pieces: Buffer[] = [];
        for await (const piece of answer) pieces.push(piece as Buffer);
        const body = Buffer.concat(pieces);
        resolve({ status: answer.statusCode as number, headers: answer.headers, body, text: body.toString() });
      });
      outgoing.end();
    });
  }
}
