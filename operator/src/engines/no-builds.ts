/** Builds of an installation that can't run them: they wait, and report the reason. */
import type { Builds } from '../capabilities/index.js';

/** `lacking`: the missing part of the installation, in words for people. */
export const noBuilds = (lacking: string): Builds => ({
  atOnce: 0,
  lacking,
  checksPushes: false,
  start: () => {},
  started: () => [],
  stateOf: () => undefined,
  stop: async () => {},
  forget: () => {},
  goLive: async () => ({ kind: 'absent' }),
  liveBuild: async () => undefined,
  keepOnly: async () => {},
  diskBytes: async () => undefined,
  clearCache: async () => true,
  remove: async () => {},
  onChange: () => {},
});
