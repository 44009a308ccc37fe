/**
 * Encrypts stored Git tokens and deploy keys with the current key, so that old keys can be removed. Runs at start,
 * because a restart adds a key, and each hour, because a replica with the old settings may still store values. In: the
 * keys of the settings. Out: the encrypted Secrets, and a log line once no value needs another key. If there is only
 * one key, nothing happens.
 */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { SECRETS } from '@slipway/installation';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
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
      .catch((error: unknown) => this.log.warn({ err: error }, 'Git credentials not checked; tried again in an hour'))
      .finally(() => {
        this.running = undefined;
      });
  }

  /** Runs one after the other, as no caller waits for the result. */
  private async encryptAll(): Promise<void> {
    const named = [...this.cache.all()].filter(({ spec: { source } }) =>
      [source?.tokenSecretRef?.name, source?.deployKeySecretRef?.name].includes(SECRETS.git.name),
    );
    const retained = await this.kubernetes.retainedNamespaces();
    const isWithSecret = new Set(named.map(({ metadata }) => metadata.name));
    const refs = [...isWithSecret, ...retained.map(({ ref }) => ref)];
    let [encrypted, failed] = [0, 0];
    for (const ref of refs) {
      if (this.closed) return;
      try {
        const outcome = await this.secrets.encryptGitCredentialsAnew(ref);
        if (outcome === 'rewritten') encrypted += 1;
        // The operator may restore the Secret from its copy, which another key encrypted.
        if (outcome === 'missing' && isWithSecret.has(ref)) throw new Error('the Secret is missing');
      } catch (error) {
        failed += 1;
        this.log.warn({ err: error, ref }, 'Git credentials not re-encrypted; tried again in an hour');
      }
    }
    const { current: key } = this.settings.encryptionKeys;
    if (failed === 0)
      this.log.info({ key, encrypted }, 'all Git tokens and deploy keys are encrypted with the current key');
  }
}
