/**
 * Definitions that the programs of one installation share: names, addresses, a site's settings, which services a
 * project has, and settings that several programs read. In: texts of settings. Out: their values, or an error that says
 * what is accepted.
 */

export * from './availability.js';
export { BUILDS_AT_ONCE_SETTING, readBuildsAtOnce } from './builds-at-once.js';
export * from './container-engine.js';
export { DATA_PLANE_NODE_FLAGS } from './data-plane-node-flags.js';
export * from './database-log-line.js';
export * from './disk-reserve.js';
export * from './env-targets.js';
export * from './first-commands.js';
export * from './installation.js';
export * from './log-text.js';
export * from './machine-project.js';
export * from './machine-provider.js';
export * from './names.js';
export * from './plan-limits.js';
export * from './pods.js';
export * from './project-pause.js';
export * from './random-letters.js';
export * from './registration.js';
export * from './rest-settings.js';
export * from './scram-only.js';
export * from './service-logs.js';
export * from './site.js';
export * from './tenant-reach.js';
export * from './trusted-proxies.js';
export * from './unit-logs.js';
export * from './web-addresses.js';
