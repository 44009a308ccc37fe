/**
 * Reads the outputs of builds from a folder, or from the store in the pods of sites. In: a project's ref, and a Build.
 * Out: the build's output, or a 503 if the store does not respond.
 */
import path from 'node:path';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { buildsInOrder, isBuildRunning, isBuildWaiting, isOfSite, isPushCheck } from '@slipway/crds';
import { storeOriginOf } from '@slipway/installation';
import { BuildLogs, ContentStoreClient } from '@slipway/sites';
import { retryLater } from '../http/problem.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings, Pods } from '../settings/settings.js';
import { BuildResources, type SeenBuild } from './build-resources.js';
import { type BuildLog, NO_OUTPUT } from './deploy.schema.js';
import { bytesBetween, EMPTY, type ReadableLog } from './log-texts.js';

/**
 * Maximum bytes of an output in a JSON response. The response has the output twice, as a whole and by section, and is
 * encoded in one turn of the event loop.
 */
const MOST_IN_JSON = 512 * 1024;
/** Phases of a Build that ended without a change of the site and without a failure. */
const WITHOUT_OUTPUT = new Set(['Superseded', 'Cancelled']);

type Logs = Pick<BuildLogs, 'sections' | 'read'>;

@Injectable()
export class BuildOutputs implements OnModuleDestroy {
  private readonly store: ContentStoreClient | undefined;
  private readonly logs: Logs | undefined;

  constructor(
    @Inject(SETTINGS) { buildsFolder, hostingPods }: ApiSettings,
    private readonly resources: BuildResources,
  ) {
    this.store = hostingPods && storeOf(hostingPods);
    const remote = this.store && refusingAbsence(this.store);
    this.logs = buildsFolder === undefined ? remote : new BuildLogs(path.join(buildsFolder, 'logs'));
  }

  async onModuleDestroy(): Promise<void> {
    await this.store?.close();
  }

  /** Returns the output of the site's running build, or of the last one if it failed. */
  async latest(ref: string): Promise<BuildLog> {
    const builds = buildsInOrder((await this.resources.list(ref)).filter(isShown));
    const latest = builds.find(isBuildRunning) ?? builds.filter(hasOutput).at(-1);
    if (!latest || latest.status?.phase === 'Deployed' || !this.logs) return NO_OUTPUT;
    const sections = await this.sectionsOf(this.logs, ref, latest.metadata.name);
    return { has_logs: true, raw: sections.map(({ content }) => content).join(''), sections };
  }

  /** Returns the whole output of a build, across its sections. */
  of(ref: string, build: string): ReadableLog {
    const { logs } = this;
    if (!logs) return EMPTY;
    return {
      kept: async () => {
        const sections = await logs.sections(ref, build);
        return { start: 0, end: sections.reduce((sum, { bytes }) => sum + bytes, 0) };
      },
      read: (position, most) => logs.read(ref, build, position, most),
    };
  }

  /** The end of the output, if the whole is too long for one response. */
  private async sectionsOf(logs: Logs, ref: string, build: string): Promise<BuildLog['sections']> {
    const shownSections: BuildLog['sections'] = [];
    const sections = await logs.sections(ref, build);
    let left = MOST_IN_JSON;
    let end = sections.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { section, bytes } of sections.toReversed()) {
      const shown = Math.min(bytes, left);
      const content = await bytesBetween(this.of(ref, build), end - shown, end);
      shownSections.unshift({ section, content: content.toString() });
      left -= shown;
      end -= bytes;
    }
    return shownSections;
  }
}

/** Answers 503, which a caller may retry, if a store does not respond. */
const refusingAbsence = (store: ContentStoreClient): Logs => ({
  sections: (ref, build) => store.sections(ref, build).catch(unavailable),
  read: (ref, build, position, most) => store.read(ref, build, position, most).catch(unavailable),
});

function unavailable(): never {
  throw retryLater('unavailable', 'The store of build logs does not answer.', 5);
}

const storeOf = ({ urls, token }: Pods) =>
  new ContentStoreClient({
    originOf: (ref) => storeOriginOf(ref, urls),
    token: async () => token(),
  });

const isShown = (build: SeenBuild) => isOfSite(build) && !isPushCheck(build);

const hasOutput = (build: SeenBuild) => !isBuildWaiting(build) && !WITHOUT_OUTPUT.has(build.status?.phase ?? '');
