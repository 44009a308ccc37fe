/**
 * A server of the cloud provider's API for tests, over real machines, which SLIPWAY_TEST_CLOUD_URL names. In: the name
 * of an installation. Out: the settings of a platform, and what that installation has at the provider.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Undefined: the tests of machines are skipped. */
export const cloudUrl = process.env.SLIPWAY_TEST_CLOUD_URL;
if (!cloudUrl) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');

/** Each kind of object that an installation makes. */
const KINDS = ['servers', 'ssh_keys', 'images', 'firewalls'] as const;
type Kind = (typeof KINDS)[number];

export interface CloudObject {
  id: number;
  name: string;
  labels: Record<string, string>;
}

export class TestCloud {
  readonly label = `e2e-${process.pid}`;
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'slipway-cloud-'));
  readonly tokenFile = path.join(this.#folder, 'token');

  constructor(readonly token = 'any-token') {
    writeFileSync(this.tokenFile, `${token}\n`, { mode: 0o600 });
  }

  /** The environment of a platform. */
  get settings(): Record<string, string> {
    return {
      SLIPWAY_HCLOUD_TOKEN_FILE: this.tokenFile,
      SLIPWAY_HCLOUD_URL: cloudUrl ?? '',
      SLIPWAY_HCLOUD_LABEL: this.label,
    };
  }

  async list(kind: Kind): Promise<CloudObject[]> {
    const query = new URLSearchParams({ label_selector: `slipway.dev/installation==${this.label}` });
    return (await this.#call('GET', `/${kind}?${query}`))[kind] as CloudObject[];
  }

  call(method: string, route: string, body?: object): Promise<Record<string, unknown>> {
    return this.#call(method, route, body);
  }

  /** Deletes everything of the installation. */
  async clear(): Promise<void> {
    for (const kind of KINDS) {
      for (const { id } of await this.list(kind)) await this.#call('DELETE', `/${kind}/${id}`).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    if (cloudUrl) await this.clear();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #call(method: string, route: string, body?: object): Promise<Record<string, unknown>> {
    const response = await fetch(`${cloudUrl}${route}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${route} answered ${response.status}: ${text}`);
    return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  }
}
