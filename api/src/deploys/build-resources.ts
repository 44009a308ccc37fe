/** Builds in the Kubernetes API. */
import { Injectable } from '@nestjs/common';
import { API_VERSION, type Build, type BuildSpec, type BuildStatus, GROUP, VERSION } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf } from '@slipway/installation';
import { isConflict } from '@slipway/kubernetes';
import { Kubernetes } from '../kubernetes/client.js';
import type { SeenProject } from '../kubernetes/project-cache.js';

export type SeenBuild = Build & {
  metadata: { uid: string; namespace: string; creationTimestamp: string; resourceVersion: string };
};

/** A merge patch: null removes a field. */
type StatusPatch = { [Field in keyof BuildStatus]: BuildStatus[Field] | null };

const pathOf = (ref: string) => `/apis/${GROUP}/${VERSION}/namespaces/${namespaceOf(ref)}/builds`;
const objectPath = ({ metadata: { namespace, name } }: SeenBuild) =>
  `/apis/${GROUP}/${VERSION}/namespaces/${namespace}/builds/${name}`;

@Injectable()
export class BuildResources {
  constructor(private readonly kubernetes: Kubernetes) {}

  get(ref: string, name: string): Promise<SeenBuild | undefined> {
    return this.kubernetes.unlessMissing(() => this.kubernetes.client.get(`${pathOf(ref)}/${name}`));
  }

  async list(ref: string): Promise<SeenBuild[]> {
    const builds: SeenBuild[] = [];
    await this.kubernetes.call(() =>
      this.kubernetes.client.eachOf<SeenBuild>({ path: pathOf(ref) }, (build) => void builds.push(build)),
    );
    return builds;
  }

  /** Fails with 409 if a Build has this name. */
  async create(
    project: SeenProject,
    named: { name: string; annotations: Record<string, string> },
    spec: Omit<BuildSpec, 'project'>,
  ): Promise<SeenBuild> {
    const { name: ref } = project.metadata;
    const metadata = { ...named, labels: { [LABEL_PROJECT]: ref } };
    const body = { apiVersion: API_VERSION, kind: 'Build', metadata, spec: { project: ref, ...spec } };
    const create = () => this.kubernetes.client.request<SeenBuild>({ method: 'POST', path: pathOf(ref), body });
    const created = await this.kubernetes.unlessMissing(create);
    if (created) return created;
    // The operator has not seen the project yet.
    await this.kubernetes.ensureNamespace(project);
    return this.kubernetes.call(create);
  }

  /** A later Build of the same name stays. */
  async annotate(seen: SeenBuild, annotations: Record<string, string>): Promise<void> {
    const body = { metadata: { uid: seen.metadata.uid, annotations } };
    await this.kubernetes.unlessMissing(() => this.kubernetes.client.patch(objectPath(seen), body));
  }

  /** Returns false if the Build was changed or deleted since it was read. */
  async setStatus(seen: SeenBuild, status: StatusPatch): Promise<boolean> {
    const { uid, resourceVersion } = seen.metadata;
    const body = { metadata: { uid, resourceVersion }, status };
    const patched = await this.kubernetes
      .unlessMissing(() => this.kubernetes.client.patch(`${objectPath(seen)}/status`, body))
      .catch((error: unknown) => {
        if (isConflict(error)) return undefined;
        throw error;
      });
    return patched !== undefined;
  }
}
