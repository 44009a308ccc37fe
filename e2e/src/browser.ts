/** A real browser for tests: Debian's Chromium with a temporary profile, driven by playwright-core. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type BrowserContext, chromium } from 'playwright-core';

const PROGRAM = '/usr/bin/chromium';

export const isBrowserInstalled = existsSync(PROGRAM);

export interface Browser {
  context: BrowserContext;
  close(): Promise<void>;
}

/** `hosts` are names that resolve to this machine, as an attacker's DNS server could make them. */
export async function startBrowser(hosts: readonly string[] = []): Promise<Browser> {
  const profile = await mkdtemp(path.join(tmpdir(), 'slipway-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: PROGRAM,
    headless: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      `--host-resolver-rules=${hosts.map((name) => `MAP ${name} 127.0.0.1`).join(', ')}`,
    ],
  });
  context.setDefaultTimeout(60_000);
  const close = async () => {
    await context.close();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { context, close };
}
