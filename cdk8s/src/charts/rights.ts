/** The roles of the programs, and their bindings. */
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { ACCOUNTS, type Account, labelsOf } from '../names.js';
import { add } from '../objects.js';
import { RIGHTS } from '../rights.js';

const RBAC = 'rbac.authorization.k8s.io';

export class ProgramRights extends Chart {
  constructor(scope: Construct) {
    super(scope, 'rights');
    for (const account of ACCOUNTS) {
      const { cluster, namespaced } = RIGHTS[account];
      bindCluster(this, account, PROGRAMS[account], cluster);
      for (const [namespace, rules] of Object.entries(namespaced)) {
        const name = PROGRAMS[account];
        const metadata = { name, namespace, labels: labelsOf(name, account) };
        add(this, 'Role', { metadata, rules });
        add(this, 'RoleBinding', {
          metadata,
          roleRef: { apiGroup: RBAC, kind: 'Role', name },
          subjects: [subject(account)],
        });
      }
    }
  }
}

export function bindCluster(chart: Chart, account: Account, name: string, rules: (typeof RIGHTS)[Account]['cluster']) {
  const metadata = { name, labels: labelsOf(PROGRAMS[account], account) };
  add(chart, 'ClusterRole', { metadata, rules });
  add(chart, 'ClusterRoleBinding', {
    metadata,
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name },
    subjects: [subject(account)],
  });
}

const subject = (account: Account) => ({
  kind: 'ServiceAccount',
  name: PROGRAMS[account],
  namespace: SYSTEM_NAMESPACE,
});
