/**
 * Rights on Slipway's resources for users with the role admin, edit or view: labels aggregate them into those roles.
 */
import { customResourceDefinitions, GROUP } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { add } from '../objects.js';

const VERBS = {
  view: ['get', 'list', 'watch'],
  edit: ['create', 'update', 'patch', 'delete'],
  admin: ['deletecollection'],
} as const;

export class UserRoles extends Chart {
  constructor(scope: Construct) {
    super(scope, 'user-roles');
    const resources = customResourceDefinitions.map(({ spec }) => spec.names.plural);
    for (const [role, verbs] of Object.entries(VERBS)) {
      add(this, 'ClusterRole', {
        metadata: {
          name: `slipway-resources-${role}`,
          labels: {
            [`rbac.authorization.k8s.io/aggregate-to-${role}`]: 'true',
            'app.kubernetes.io/part-of': 'slipway',
          },
        },
        rules: [{ apiGroups: [GROUP], resources, verbs: [...verbs] }],
      });
    }
  }
}
