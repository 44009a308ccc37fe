/**
 * The ConfigMap of a Postgres server's settings. It is the only ConfigMap that the operator compares with the live one.
 * Pure.
 */

import { DATA_NAMESPACE, PART_POSTGRES } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';

export const settingsMapName = (cluster: string) => `${cluster}-settings`;

export const isSettingsMap = ({ metadata: { namespace, name } }: KubeObject) =>
  namespace === DATA_NAMESPACE || name === settingsMapName(PART_POSTGRES);
