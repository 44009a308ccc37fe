/**
 * The capabilities of an installation: interfaces and outcomes alone. A type of project needs some of them (`needs` in
 * crds/src/types.ts). Engines implement them, each for one kind of place: one machine, a cluster. Their few coarse
 * methods are idempotent and safe to interrupt: a second call continues. Called by the steps of projects.
 */
import type { Apps } from './apps.js';
import type { Builds } from './builds.js';
import type { Databases } from './databases.js';
import type { Hosting } from './hosting.js';
import type { Isolation } from './isolation.js';
import type { Machines } from './machines.js';
import type { ProjectServices } from './services.js';

export * from './apps.js';
export * from './builds.js';
export * from './databases.js';
export * from './functions.js';
export * from './hosting.js';
export * from './isolation.js';
export * from './machines.js';
export * from './outcome.js';
export * from './project.js';
export * from './services.js';

/** The capabilities by the names of crds' Capability. An installation supplies those that it has. */
export interface Capabilities {
  isolation: Isolation;
  databases: Databases;
  services: ProjectServices;
  /** Undefined: this installation has no domain for projects. */
  hosting?: Hosting | undefined;
  builds: Builds;
  /** Undefined: this installation runs no containers. */
  apps?: Apps | undefined;
  /** Undefined: this installation has no provider of machines. */
  machines?: Machines | undefined;
}
