/**
 * Encrypts stored secrets of webhooks with the current key, so that old keys can be removed. Runs at start and each
 * hour, like `projects/git-token-upkeep.ts`. If there is only one key, nothing happens.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Logger } from 'pino';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { WebhookSecrets } from './webhook-secrets.js';

const EVERY_MS = 3_600_000;
const AT_ONCE = 200;

interface Row {
  id: number;
  projectId: number;
  secret: string;
  formerSecret: string | null;
}

@Injectable()
export class WebhookSecretUpkeep implements OnApplicationBootstrap, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> = Promise.resolve();
  private closed = false;

  constructor(
    private readonly orm: MikroORM,
    private readonly secrets: WebhookSecrets,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  onApplicationBootstrap(): void {
    if (Object.keys(this.settings.encryptionKeys.keys).length < 2) return;
    this.timer = setInterval(() => this.begin(), EVERY_MS);
    this.begin();
  }

  async onApplicationShutdown(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await this.running;
  }

  private begin(): void {
    this.running = this.running
      .then(() => this.encryptAll())
      .catch((error: unknown) =>
        this.log.warn({ err: error }, 'webhook secrets not encrypted; tried again in an hour'),
      );
  }

  private async encryptAll(): Promise<void> {
    for (let after = 0; ; ) {
      const rows = await this.page(after);
      for (const row of rows) await this.encrypt(row);
      const last = rows.at(-1);
      if (this.closed) return;
      if (!last) break;
      after = last.id;
    }
    this.log.info(
      { key: this.settings.encryptionKeys.current },
      'all webhook secrets are encrypted with the current key',
    );
  }

  private page(after: number): Promise<Row[]> {
    const sql = `select id, project_id as "projectId", secret, former_secret as "formerSecret"
       from platform.notification_channels where kind = 'webhook' and id > ? order by id limit ?`;
    return this.orm.em.fork().execute(sql, [after, AT_ONCE]) as unknown as Promise<Row[]>;
  }

  /** A secret that was rotated since it was read stays. */
  private async encrypt({ id, projectId, secret, formerSecret }: Row): Promise<void> {
    const former = formerSecret === null ? undefined : this.secrets.sealAnew(projectId, formerSecret);
    const renewed = this.secrets.sealAnew(projectId, secret);
    if (former === undefined && renewed === undefined) return;
    const sql = `update platform.notification_channels set secret = ?, former_secret = ?
       where id = ? and secret = ? returning id`;
    await this.orm.em.fork().execute(sql, [renewed ?? secret, former ?? formerSecret, id, secret]);
  }
}
