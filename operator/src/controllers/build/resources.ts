/** The objects that this controller reads and writes, and their paths. */
import {
  ANNOTATION_CANCEL,
  API_VERSION,
  type Build,
  isBuildRunning,
  isBuildWaiting,
  type Project,
} from '@slipway/crds';
import type { Informer, KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type { Builds } from '../../capabilities/index.js';
import type { EventRecorder } from '../../runtime/events.js';
import type { StatusWriter } from '../../runtime/status-writer.js';
import type { BuildTime } from './build-time.js';

export const BUILDS = `/apis/${API_VERSION}/builds`;

/** Index of the builds of one project. */
export const BY_NAMESPACE = 'namespace';
/** Index of the waiting and the running builds of all projects. */
export const BY_ACTIVITY = 'activity';
export type Activity = 'waiting' | 'running';

export const activityOf = (build: Build): Activity[] => {
  if (isBuildRunning(build)) return ['running'];
  return isBuildWaiting(build) ? ['waiting'] : [];
};

export const buildPath = ({ metadata }: Build) =>
  `/apis/${API_VERSION}/namespaces/${metadata.namespace}/builds/${metadata.name}`;

export const isCancelled = ({ metadata }: Build) => metadata.annotations?.[ANNOTATION_CANCEL] !== undefined;

export interface BuildReconcilerDeps {
  client: KubeClient;
  engine: Builds;
  builds: Informer<Build>;
  projects: Informer<Project>;
  statuses: StatusWriter<Build>;
  /** Counts the time of builds by account. */
  time: BuildTime;
  events: EventRecorder;
  log: Logger;
  /** Milliseconds between checks for missed pushes. */
  pushCheckMs: number;
  now(): Date;
}
