/**
 * Runs one build of an image: clones in sealed processes, and then lets the caller build the Dockerfile of the clone.
 * In: a request of the platform, with values of the tenant, and a builder. Out: the image, and the commit.
 */
import { lstatSync } from 'node:fs';
import path from 'node:path';
import { BuildSession } from './build-session.js';
import { clone, commitOf } from './clone.js';
import { innerFolder } from './inner-folder.js';
import { type BuildEvents, BuildFailed, type BuildRequest, Refused } from './request.js';
import { PROXY_PORT, PROXY_URL, RELAY } from './sealed-command.js';
import { refuseUnneeded } from './unneeded.js';
import { missingWall } from './walls.js';

const DOCKERFILE = 'Dockerfile';

/** The content of a build, all of which is hostile, and its way to the internet. */
export interface ImageContext {
  /** A folder that the account of the request owns. */
  folder: string;
  /** Path of the Dockerfile, a regular file in the folder. */
  dockerfile: string;
  /** Files of the command below, which the builder must be able to read. */
  programs: { node: string; relay: string };
  /** The egress proxy's socket. */
  socket: string;
  /** The port on loopback at which the relay offers the proxy, and its URL. */
  proxy: { port: number; url: string };
}

/** Resolves with the image's id, or with the exit code of the step that failed, and the builder's last words. */
export type ImageBuilder = (
  context: ImageContext,
  onOutput: (bytes: Buffer) => void,
  signal: AbortSignal,
) => Promise<{ image: string } | FailedImage>;

export interface FailedImage {
  exitCode: number;
  /** The end of the error output. */
  complaint: string;
}

/**
 * Rejects with BuildFailed, whose message is for the tenant, with Unneeded, or with the signal's reason. Every process
 * of the clone has ended before it settles.
 */
export async function runImageBuild(
  request: BuildRequest,
  build: ImageBuilder,
  events: BuildEvents,
  signal: AbortSignal,
): Promise<{ image: string; commit: string }> {
  const missing = missingWall();
  if (missing) throw new Error(`this machine cannot isolate builds: it is missing ${missing}`);
  const session = new BuildSession(request, events, signal);
  try {
    await session.open();
    return await stepsOf(session, build, events);
  } catch (error) {
    throw session.explained(error);
  } finally {
    await session.close();
  }
}

async function stepsOf(session: BuildSession, build: ImageBuilder, events: BuildEvents) {
  const { request, folders, account, log } = session;
  session.begin('Cloning');
  await refuseUnneeded(session);
  await clone({ request, folders, account, run: (command, onOutput) => session.run(command, onOutput) });
  const commit = commitOf(folders.source);
  events.commit(commit);
  const folder = innerFolder(folders.source, request.settings.rootDir ?? '.', 'root_dir');
  const dockerfile = dockerfileIn(folder);
  session.begin('Building');
  const context = {
    folder,
    dockerfile,
    programs: { node: process.execPath, relay: RELAY },
    socket: folders.socket,
    proxy: { port: PROXY_PORT, url: PROXY_URL },
  };
  const result = await build(context, (bytes) => log.output(bytes), session.signal);
  log.flush();
  if ('image' in result) return { image: result.image, commit };
  throw new BuildFailed(
    'Building',
    result.exitCode,
    messageOf(result, (text) => log.shown(text)),
  );
}

/** The exit code of podman for an error of its own, such as an unknown instruction or base image. */
const OWN_ERROR = 125;
const WORDS_SHOWN = 300;

function messageOf({ exitCode, complaint }: FailedImage, shown: (text: string) => string): string {
  const error = exitCode === OWN_ERROR ? /^Error: (.*)$/m.exec(complaint)?.[1] : undefined;
  if (error === undefined) return `A step of the Dockerfile ended with exit code ${exitCode}. The log has its output.`;
  const words = shown(error)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .slice(0, WORDS_SHOWN)
    .toWellFormed();
  return `The Dockerfile can not be built: ${words}. The log has the whole output.`;
}

/** A link may lead out of the repository, so only a regular file is accepted. */
function dockerfileIn(folder: string): string {
  const file = path.join(folder, DOCKERFILE);
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found?.isFile()) return file;
  const fix = `Add one there, or set root_dir to the folder that has it.`;
  throw new Refused(
    found
      ? `The ${DOCKERFILE} of the repository is not a regular file. Replace it by one.`
      : `The repository has no ${DOCKERFILE} in its folder root_dir. ${fix}`,
  );
}
