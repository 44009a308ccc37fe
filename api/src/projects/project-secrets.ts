/**
 * The Secrets of a project, in its namespace: those that this program writes, and those of the operator that it shows.
 */
import { Inject, Injectable } from '@nestjs/common';
import { API_VERSION, LABEL_MANAGED_BY, LABEL_PROJECT, MANAGED_BY, namespaceOf, SECRETS } from '@slipway/crds';
import { Kubernetes } from '../kubernetes/client.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import { Keyring } from './keyring.js';
import type { ProjectSecrets } from './project-view.js';

@Injectable()
export class SecretsOfProjects {
  private readonly keyring: Keyring;

  constructor(
    private readonly kubernetes: Kubernetes,
    @Inject(SETTINGS) settings: ApiSettings,
  ) {
    this.keyring = new Keyring(settings.encryptionKeys);
  }

  async read({ metadata: { name: ref }, spec }: SeenProject): Promise<ProjectSecrets> {
    const read = (name: string) => this.kubernetes.getSecret(ref, name);
    // Of Secrets that others made this program may read none, whatever a Project names.
    const readOurs = (name: string, named: string | undefined) => (named === name ? read(name) : undefined);
    const [keys, database, env, notifications] = await Promise.all([
      read(SECRETS.keys.name),
      read(SECRETS.database.name),
      readOurs(SECRETS.env.name, spec.env?.secretRef.name),
      readOurs(SECRETS.notifications.name, spec.notifications?.slackWebhookSecretRef?.name),
    ]);
    return { keys, database, env, notifications };
  }

  keys({ metadata }: SeenProject): Promise<Record<string, string> | undefined> {
    return this.kubernetes.getSecret(metadata.name, SECRETS.keys.name);
  }

  database({ metadata }: SeenProject): Promise<Record<string, string> | undefined> {
    return this.kubernetes.getSecret(metadata.name, SECRETS.database.name);
  }

  putJwtSecret(project: SeenProject, secret: string): Promise<void> {
    return this.put(project, SECRETS.jwt.name, { [SECRETS.jwt.secret]: secret });
  }

  putEnv(project: SeenProject, variables: Record<string, string>): Promise<void> {
    return this.put(project, SECRETS.env.name, variables);
  }

  putGitToken(project: SeenProject, token: string): Promise<void> {
    const sealed = this.keyring.seal(token, `${project.metadata.name}/${SECRETS.git.name}`);
    return this.put(project, SECRETS.git.name, { [SECRETS.git.token]: sealed });
  }

  /** Encrypts the stored token with the current key, unless it is. */
  encryptGitTokenAnew(ref: string): ReturnType<Kubernetes['rewriteSecret']> {
    const place = `${ref}/${SECRETS.git.name}`;
    return this.kubernetes.rewriteSecret(ref, SECRETS.git.name, (content) => {
      const sealed = content[SECRETS.git.token];
      if (sealed === undefined || this.keyring.isCurrent(sealed)) return undefined;
      return { ...content, [SECRETS.git.token]: this.keyring.seal(this.keyring.open(sealed, place), place) };
    });
  }

  putSlackWebhook(project: SeenProject, url: string): Promise<void> {
    return this.put(project, SECRETS.notifications.name, { [SECRETS.notifications.slackWebhook]: url });
  }

  remove({ metadata }: SeenProject, name: string): Promise<void> {
    return this.kubernetes.deleteSecret(metadata.name, name);
  }

  /** False where the operator has not made the keys yet: a Secret half made would be taken for a whole one. */
  changeWebhookSecret({ metadata }: SeenProject, secret: string): Promise<boolean> {
    return this.kubernetes.patchSecret(metadata.name, SECRETS.keys.name, { [SECRETS.keys.webhookSecret]: secret });
  }

  private async put(project: SeenProject, name: string, stringData: Record<string, string>): Promise<void> {
    const { name: ref, uid } = project.metadata;
    const labels = { [LABEL_PROJECT]: ref, [LABEL_MANAGED_BY]: MANAGED_BY };
    const owner = { apiVersion: API_VERSION, kind: 'Project', name: ref, uid };
    await this.kubernetes.ensureNamespace({
      metadata: { name: namespaceOf(ref), labels, ownerReferences: [owner] },
    });
    await this.kubernetes.putSecret({ metadata: { name, namespace: namespaceOf(ref), labels }, stringData });
  }
}
