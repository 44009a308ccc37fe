/** Reads and changes the Secret with the settings of a project's auth, which the owner may change with kubectl too. */
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import type { Principal } from '../callers/principal.js';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { ProjectsService, refuseDeleting } from '../projects/projects.service.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';
import { LOG } from '../settings/injected.js';
import type { Config, ConfigChange } from './config.schema.js';
import { changedTexts, shownConfig } from './config-change.js';
import { AUTH } from './config-kinds.js';

@Injectable()
export class AuthConfigService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
    private readonly exclusive: ExclusiveWork,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async read(caller: Principal, id: number): Promise<Config> {
    return shownConfig(AUTH, await this.secrets.authConfig(await this.find(caller, id)));
  }

  async change(caller: Principal, id: number, change: ConfigChange): Promise<Config> {
    const project = await this.find(caller, id);
    refuseDeleting(project);
    let names: string[] = [];
    const work = () =>
      this.secrets.changeAuthConfig(project, (current) => {
        const texts = changedTexts(AUTH, change, current);
        names = Object.keys(texts);
        return texts;
      });
    const stored = await this.exclusive.run('projectSecrets', id, work);
    this.log.info({ ref: project.metadata.name, account: caller.user.id, settings: names }, 'auth settings changed');
    return shownConfig(AUTH, stored);
  }

  private async find(caller: Principal, id: number) {
    const { project } = await this.projects.find(caller, id);
    refuseWithoutDatabase(project, 'auth');
    return project;
  }
}
