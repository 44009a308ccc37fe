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

/**
 * Maximum bytes of an output in a JSON response. The response has the output twice, as a whole and by section, and is
 * encoded in one turn of the event loop.
 */
const MOST_IN_JSON = 512 * 1024;
const PIECE_BYTES = 64 * 1024;
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

  /** Returns the whole output, up to the bytes written so far. */
  async *pieces(ref: string, build: string): AsyncGenerator<Buffer> {
    if (!this.logs) return;
    for (let position = 0; ; ) {
      const piece = await this.logs.read(ref, build, position, PIECE_BYTES);
      if (piece.length === 0) return;
      position += piece.length;
      yield piece;
    }
  }

  /** Returns the number of bytes written so far. */
  async bytes(ref: string, build: string): Promise<number> {
    const sections = (await this.logs?.sections(ref, build)) ?? [];
    return sections.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Returns the output from `start` on, up to the bytes written so far, in texts with the byte offset of their ends. A
   * partial character at the end is withheld until the output is complete.
   */
  async *texts(
    ref: string,
    build: string,
    start: number,
    isComplete: boolean,
  ): AsyncGenerator<{ text: string; end: number }> {
    if (!this.logs) return;
    for (let position = start; ; ) {
      const piece = await this.logs.read(ref, build, position, PIECE_BYTES);
      const isLast = position + piece.length >= (await this.bytes(ref, build));
      const shown = isLast && isComplete ? piece : wholeCharacters(piece);
      // A section that ends within a character has no second half.
      const taken = shown.length === 0 && !isLast ? piece : shown;
      if (taken.length === 0) return;
      position += taken.length;
      yield { text: taken.toString(), end: position };
    }
  }

  /** The end of the output, if the whole is too long for one response. */
  private async sectionsOf(logs: Logs, ref: string, build: string): Promise<BuildLog['sections']> {
    const shownSections: BuildLog['sections'] = [];
    const sections = await logs.sections(ref, build);
    let left = MOST_IN_JSON;
    let end = sections.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { section, bytes } of sections.toReversed()) {
      const shown = Math.min(bytes, left);
      shownSections.unshift({ section, content: await this.text(logs, { ref, build, from: end - shown, to: end }) });
      left -= shown;
      end -= bytes;
    }
    return shownSections;
  }

  private async text(
    logs: Logs,
    { ref, build, from, to }: { ref: string; build: string; from: number; to: number },
  ): Promise<string> {
    const pieces: Buffer[] = [];
    for (let position = from; position < to; ) {
      const piece = await logs.read(ref, build, position, Math.min(PIECE_BYTES, to - position));
      if (piece.length === 0) break;
      pieces.push(piece);
      position += piece.length;
    }
    return Buffer.concat(pieces).toString();
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

/** Returns the bytes without an incomplete UTF-8 character at their end. */
function wholeCharacters(bytes: Buffer): Buffer {
  for (let index = bytes.length - 1; index >= Math.max(0, bytes.length - 4); index -= 1) {
    const byte = bytes[index] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return index + length > bytes.length ? bytes.subarray(0, index) : bytes;
  }
  return bytes;
}
