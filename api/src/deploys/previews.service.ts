/** Lists the previews of a project, and removes one. */
import { Inject, Injectable } from '@nestjs/common';
import { numberOfBuild, previewBuildsOf } from '@slipway/crds';
import { siteUrlOf } from '@slipway/installation';
import { previewName } from '@slipway/sites';
import type { Principal } from '../callers/principal.js';
import { Problem } from '../http/problem.js';
import { ProjectsService } from '../projects/projects.service.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import type { PreviewView } from './build.schema.js';
import { BuildQueue } from './build-queue.js';
import { BuildResources, type SeenBuild } from './build-resources.js';

@Injectable()
export class PreviewsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly resources: BuildResources,
    private readonly queue: BuildQueue,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  /** The newest first. The operator keeps no more than the plan has. */
  async list(caller: Principal, id: number): Promise<PreviewView[]> {
    const { project } = await this.projects.find(caller, id);
    const builds = await this.resources.list(project.metadata.name);
    return previewBuildsOf(builds)
      .toReversed()
      .map((build) => this.viewOf(project.metadata.name, build));
  }

  async remove(caller: Principal, id: number, branch: string): Promise<void> {
    const { project } = await this.projects.find(caller, id);
    if ((await this.queue.removePreview(id, project, branch)) === undefined) {
      throw new Problem(
        'not_found',
        'The branch has no preview: GET /projects/{id}/previews lists those that there are.',
      );
    }
  }

  private viewOf(ref: string, build: SeenBuild): PreviewView {
    const { spec, status = {} } = build;
    const branch = spec.preview as string;
    return {
      branch,
      url: siteUrlOf(this.settings, previewName(ref, branch)) ?? null,
      build_id: numberOfBuild(build) ?? null,
      commit: status.commit ?? null,
      bytes: status.bytes ?? null,
      deployed_at: status.finishedAt ?? null,
    };
  }
}
