/**
 * The ConfigMap of a Postgres server's settings: of all ConfigMaps the only one that the operator compares with what is
 * there. Pure.
 */
import { DATA_NAMESPACE, PART_POSTGRES } from '@slipway/crds';
import type { KubeObject } from '../../../runtime/kube.js';

export const settingsMapName = (cluster: string) => `${cluster}-settings`;

export const isSettingsMap = ({ metadata: { namespace, name } }: KubeObject) =>
  namespace === DATA_NAMESPACE || name === settingsMapName(PART_POSTGRES);
