/** Secrets of a project in its namespace: those that this program writes, and those of the operator that it shows. */
import { Inject, Injectable } from '@nestjs/common';
import { LABEL_MANAGED_BY, LABEL_PROJECT, MANAGED_BY, namespaceOf, SECRETS } from '@slipway/installation';
import { JWT_KEYS } from '@slipway/installation/auth-settings.js';
import { isConflict } from '@slipway/kubernetes';
import { Kubernetes, type SecretVersion } from '../kubernetes/client.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { Keyring } from './keyring.js';
import type { ProjectSecrets } from './project-view.js';
import type { RotationSecrets } from './rotation.js';

const GIT_CREDENTIALS = [SECRETS.git.token, SECRETS.git.deployKey] as const;
export type GitCredential = (typeof GIT_CREDENTIALS)[number];

export interface OpenGitCredentials {
  token: string | null;
  /** The content of a private key file of OpenSSH. */
  deployKey: string | null;
}

/** Name of the value, authenticated with it. That of a token is the same as in earlier releases. */
const placeOf = (ref: string, kind: GitCredential) =>
  kind === SECRETS.git.token ? `${ref}/${SECRETS.git.name}` : `${ref}/${SECRETS.git.name}/${kind}`;

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
    // A Project may name any Secret; this program reads only those that the platform made.
    const readOurs = (name: string, named: string | undefined) => (named === name ? read(name) : undefined);
    const [keys, database, env, notifications] = await Promise.all([
      read(SECRETS.keys.name),
      read(SECRETS.database.name),
      readOurs(SECRETS.env.name, spec.env?.secretRef.name),
      readOurs(SECRETS.notifications.name, spec.notifications?.slackWebhookSecretRef?.name),
    ]);
    return { keys, database, env, notifications };
  }

  /** Returns the Secrets that rotations change. */
  async credentials(project: SeenProject): Promise<RotationSecrets> {
    const [keys, database] = await Promise.all([this.keys(project), this.database(project)]);
    return { keys, database };
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

  /** Returns the content of the Secret of variables; empty if there is none. */
  async env({ metadata }: SeenProject): Promise<Record<string, string>> {
    return (await this.kubernetes.getSecret(metadata.name, SECRETS.env.name)) ?? {};
  }

  putEnv(project: SeenProject, content: Record<string, string>): Promise<void> {
    return this.put(project, SECRETS.env.name, content);
  }

  /** Encrypts a git credential and stores it beside the other one. Callers must hold the lock `projectSecrets`. */
  async putGitCredential(project: SeenProject, kind: GitCredential, plain: string): Promise<void> {
    const { name: ref } = project.metadata;
    const sealed = { [kind]: this.keyring.seal(plain, placeOf(ref, kind)) };
    const outcome = await this.rewriteGit(ref, (content) => ({ ...content, ...sealed }));
    if (outcome === 'missing') await this.put(project, SECRETS.git.name, sealed);
  }

  /** Deletes a git credential, and the Secret with the last one. Callers must hold the lock `projectSecrets`. */
  async removeGitCredential(project: SeenProject, kind: GitCredential): Promise<void> {
    let isLast = false;
    await this.rewriteGit(project.metadata.name, ({ [kind]: removed, ...others }) => {
      isLast = Object.keys(others).length === 0;
      return isLast || removed === undefined ? undefined : others;
    });
    if (isLast) await this.remove(project, SECRETS.git.name);
  }

  /** Decrypts the git credentials that the Project names, if this program stored them. */
  async openGitCredentials({ metadata: { name: ref }, spec: { source } }: SeenProject): Promise<OpenGitCredentials> {
    const named = { token: source?.tokenSecretRef?.name, deployKey: source?.deployKeySecretRef?.name };
    const isOurs = (name: string | undefined) => name === SECRETS.git.name;
    if (!isOurs(named.token) && !isOurs(named.deployKey)) return { token: null, deployKey: null };
    const content = (await this.kubernetes.getSecret(ref, SECRETS.git.name)) ?? {};
    const open = (name: string | undefined, kind: GitCredential) => {
      const sealed = isOurs(name) ? content[kind] : undefined;
      return sealed === undefined ? null : this.keyring.open(sealed, placeOf(ref, kind));
    };
    return { token: open(named.token, SECRETS.git.token), deployKey: open(named.deployKey, SECRETS.git.deployKey) };
  }

  /** Encrypts the stored git credentials with the current key, if another key encrypted them. */
  encryptGitCredentialsAnew(ref: string): ReturnType<Kubernetes['rewriteSecret']> {
    return this.kubernetes.rewriteSecret(ref, SECRETS.git.name, (content) => {
      const outdated = GIT_CREDENTIALS.flatMap((kind) => {
        const sealed = content[kind];
        return sealed === undefined || this.keyring.isCurrent(sealed) ? [] : [{ kind, sealed }];
      });
      if (outdated.length === 0) return undefined;
      const renewed = outdated.map(({ kind, sealed }) => {
        const place = placeOf(ref, kind);
        return [kind, this.keyring.seal(this.keyring.open(sealed, place), place)];
      });
      return { ...content, ...Object.fromEntries(renewed) };
    });
  }

  /** Retries once, because `git-token-upkeep.ts` rewrites the Secret without the lock. */
  private rewriteGit(ref: string, rewrite: (content: Record<string, string>) => Record<string, string> | undefined) {
    const attempt = () => this.kubernetes.rewriteSecret(ref, SECRETS.git.name, rewrite);
    return attempt().catch((error: unknown) => {
      if (isConflict(error)) return attempt();
      throw error;
    });
  }

  authConfig({ metadata }: SeenProject): Promise<SecretVersion> {
    return this.kubernetes.readSecretVersion(metadata.name, SECRETS.auth.name);
  }

  /** The data plane finds the Secret by its label, so a Secret that kubectl created without the label gets it. */
  async changeAuthConfig(
    project: SeenProject,
    decide: (current: SecretVersion) => Record<string, string | null>,
  ): Promise<SecretVersion> {
    const { name: ref } = project.metadata;
    await this.kubernetes.ensureNamespace(project);
    return this.kubernetes.changeSecret(ref, { name: SECRETS.auth.name, labels: { [LABEL_PROJECT]: ref } }, decide);
  }

  /** Removes the owner's own keys that sign tokens. Then the project's JWT secret signs tokens. */
  async removeSigningKeys({ metadata: { name: ref } }: SeenProject): Promise<void> {
    await this.kubernetes.changeSecret(ref, { name: SECRETS.auth.name, labels: {} }, ({ content }) =>
      content[JWT_KEYS] === undefined ? {} : { [JWT_KEYS]: null },
    );
  }

  /** Returns the URL of the Slack webhook, if the Project names the Secret that this program writes. */
  async slackWebhook({ metadata, spec }: SeenProject): Promise<string | undefined> {
    const named = spec.notifications?.slackWebhookSecretRef;
    if (named?.name !== SECRETS.notifications.name) return undefined;
    const content = await this.kubernetes.getSecret(metadata.name, named.name);
    return content?.[named.key ?? SECRETS.notifications.slackWebhook];
  }

  putSlackWebhook(project: SeenProject, url: string): Promise<void> {
    return this.put(project, SECRETS.notifications.name, { [SECRETS.notifications.slackWebhook]: url });
  }

  remove({ metadata }: SeenProject, name: string): Promise<void> {
    return this.kubernetes.deleteSecret(metadata.name, name);
  }

  /**
   * Returns false if the operator has not created the Secret yet, as an incomplete Secret would pass for a complete
   * one.
   */
  changeWebhookSecret({ metadata }: SeenProject, secret: string): Promise<boolean> {
    return this.kubernetes.patchSecret(metadata.name, SECRETS.keys.name, { [SECRETS.keys.webhookSecret]: secret });
  }

  private async put(project: SeenProject, name: string, stringData: Record<string, string>): Promise<void> {
    const { name: ref } = project.metadata;
    const labels = { [LABEL_PROJECT]: ref, [LABEL_MANAGED_BY]: MANAGED_BY };
    await this.kubernetes.ensureNamespace(project);
    await this.kubernetes.putSecret({ metadata: { name, namespace: namespaceOf(ref), labels }, stringData });
  }
}
