/** Every controller of the operator. In: caches, capabilities and clients. Started when this operator leads. */
import type { Controller } from '../runtime/controller.js';
import type { Metrics } from '../runtime/metrics.js';
import { buildController } from './build/controller.js';
import type { BuildReconcilerDeps } from './build/resources.js';
import { functionController } from './edge-function/controller.js';
import type { FunctionReconcilerDeps } from './edge-function/resources.js';
import type { ReconcilerDeps } from './project/context.js';
import { projectController } from './project/controller.js';

export interface ControllerWorld {
  ofProjects: Omit<ReconcilerDeps, 'statuses'>;
  ofBuilds: Omit<BuildReconcilerDeps, 'statuses' | 'time'>;
  ofFunctions: Omit<FunctionReconcilerDeps, 'statuses'>;
  /** Calls `listener` with the ref of each project whose object changed that a capability made. */
  onChildChange(listener: (ref: string) => void): void;
  metrics: Metrics;
}

const CONTROLLERS: readonly ((world: ControllerWorld) => Controller)[] = [
  ({ ofProjects, metrics, onChildChange }) => projectController(ofProjects, metrics, onChildChange),
  ({ ofBuilds, metrics }) => buildController(ofBuilds, metrics),
  ({ ofFunctions, metrics }) => functionController(ofFunctions, metrics),
];

export const controllersOf = (world: ControllerWorld): Controller[] => CONTROLLERS.map((make) => make(world));
