/**
 * Encrypts stored Git tokens with the current key, so that old keys can be removed: at the start, as a key is added by
 * a restart, and each hour, as a replica that has not been restarted may store tokens with the key before. In: the keys
 * of the settings. Out: the Secrets, and a line of the log once no token needs another key. With one key it does
 * nothing.
 */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { SECRETS } from '@slipway/crds';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { LOG, SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import { SecretsOfProjects } from './project-secrets.js';

const EVERY_MS = 3_600_000;

@Injectable()
export class GitTokenUpkeep implements OnApplicationBootstrap, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private closed = false;

  constructor(
    private readonly cache: ProjectCache,
    private readonly kubernetes: Kubernetes,
    private readonly secrets: SecretsOfProjects,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  onApplicationBootstrap(): void {
    if (Object.keys(this.settings.encryptionKeys.keys).length < 2) return;
    this.timer = setInterval(() => this.look(), EVERY_MS);
    this.look();
  }

  async onApplicationShutdown(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await this.running;
  }

  private look(): void {
    this.running ??= this.encryptAll()
      .catch((error: unknown) => this.log.warn({ err: error }, 'Git tokens not looked at; tried again in an hour'))
      .finally(() => {
        this.running = undefined;
      });
  }

  /** One after the other: nobody waits for it. */
  private async encryptAll(): Promise<void> {
    const named = [...this.cache.all()].filter(({ spec }) => spec.source?.tokenSecretRef?.name === SECRETS.git.name);
    const retained = await this.kubernetes.retainedNamespaces();
    const isWithSecret = new Set(named.map(({ metadata }) => metadata.name));
    const refs = [...isWithSecret, ...retained.map(({ ref }) => ref)];
    let [encrypted, failed] = [0, 0];
    for (const ref of refs) {
      if (this.closed) return;
      try {
        const outcome = await this.secrets.encryptGitTokenAnew(ref);
        if (outcome === 'rewritten') encrypted += 1;
        // The operator may restore it from its copy, with the key before.
        if (outcome === 'missing' && isWithSecret.has(ref)) throw new Error('the Secret is missing');
      } catch (error) {
        failed += 1;
        this.log.warn({ err: error, ref }, 'Git token not encrypted anew; tried again in an hour');
      }
    }
    const { current: key } = this.settings.encryptionKeys;
    if (failed === 0) this.log.info({ key, encrypted }, 'all Git tokens are encrypted with the current key');
  }
}
