/**
 * The interface between the operator and the containers of a build's pod. The operator writes the orders of the clone
 * and of the publication, each in a file of a Secret. Each container writes a termination message. Marked lines in the
 * log show where a step begins and ends.
 */
import { createHash } from 'node:crypto';
import { type JsonBound, parseJson } from '@slipway/program';
import type { BuildSettings, Deployment, Detected, Source } from '../request.js';

export interface CloneOrder {
  ref: string;
  build: string;
  source: Source;
  settings: Omit<BuildSettings, 'framework'>;
  /** Public variables of the tenant's commands. COMMIT_SHA is added to them. Earlier releases wrote none. */
  deployment?: Deployment;
  /** Variables of the tenant's commands. */
  env: Readonly<Record<string, string>>;
  /** The ticket to fetch the git credentials, valid once. */
  ticket: string;
  /** `http://host:port` of the egress proxy, through which the API is reached too. */
  egressUrl: string;
  /** The image of Node, without a tag. */
  nodeImage: string;
  /** The tag of that image. `{version}` is replaced by the Node version. */
  nodeTag: string;
  /** Certificate authorities (PEM) that the build trusts, in addition to the system's. */
  certificates: string | undefined;
  processes: number;
  logBytes: number;
  /** The prefix of the log lines that mark the steps. */
  mark: string;
}

export interface PublishOrder {
  /** The site that the output belongs to: the ref of the project, or the name of a preview. */
  ref: string;
  build: string;
  egressUrl: string;
  /** The store's token for this build. */
  token: string;
  limits: { files: number; fileBytes: number; totalBytes: number };
}

/** The values that the build uses. Values that are not known yet are missing. */
export type Found = Partial<Record<keyof Detected, string>>;

/** The termination message of a container. */
export type Ending =
  | { kind: 'cloned'; commit: string; detected: Found }
  /** The newest commit is the one in the order's `unless`. */
  | { kind: 'unneeded' }
  /** The output is published. `bytes`: the size of its files. */
  | { kind: 'published'; bytes?: number }
  /** The build failed. The message is for the owner. */
  | { kind: 'failed'; message: string; exitCode: number }
  | { kind: 'refused'; message: string };

/** The folder of the volume that the containers share. */
export const WORKSPACE = '/workspace';
export const CONTEXT = `${WORKSPACE}/context`;
export const IMAGE = `${WORKSPACE}/image`;
export const ORDER_FILE = '/etc/slipway-build/order.json';
export const TERMINATION_LOG = '/dev/termination-log';
/**
 * The folder of the built image that has the output. At the top level, Kaniko leaves out folders with its own names.
 */
export const OUTPUT_IN_IMAGE = 'site';

/**
 * Returns the prefix. A tenant who prints such a line can only change the steps that the log of the own build shows.
 */
export const markOf = (job: string) => `::slipway-${createHash('sha256').update(job).digest('hex').slice(0, 16)}:`;

/** Maximum bytes of a termination message; the kubelet drops everything after them. */
const MOST_OF_ENDING = 4096;
const BOUND: JsonBound = { bytes: MOST_OF_ENDING, depth: 4, values: 40 };

export function endingText(ending: Ending): string {
  const text = JSON.stringify(ending);
  if (Buffer.byteLength(text) <= MOST_OF_ENDING) return text;
  if (ending.kind === 'cloned') return JSON.stringify({ ...ending, detected: {} });
  const message = 'message' in ending ? ending.message.slice(0, 500) : '';
  return JSON.stringify({ ...ending, message });
}

/** Returns undefined if the container wrote no message because it was killed. */
export function readEnding(text: string | undefined): Ending | undefined {
  if (text === undefined || text === '') return undefined;
  try {
    const ending = parseJson(text, BOUND) as Ending;
    return typeof ending === 'object' && ending !== null && 'kind' in ending ? ending : undefined;
  } catch {
    return undefined;
  }
}
