/** The roles of the programs, and their bindings. */
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { ACCOUNTS, type Account, labelsOf } from '../names.js';
import { add } from '../objects.js';
import { OPTIONAL_RIGHTS, RIGHTS, type Rights } from '../rights.js';

const RBAC = 'rbac.authorization.k8s.io';

export class ProgramRights extends Chart {
  constructor(scope: Construct, accounts: readonly Account[] = ACCOUNTS) {
    super(scope, 'rights');
    for (const account of accounts) grant(this, account, PROGRAMS[account], RIGHTS[account]);
  }
}

/** Adds a rule to the operator's rights. */
export class OptionalRights extends Chart {
  constructor(scope: Construct, name: keyof typeof OPTIONAL_RIGHTS, file = 'rights') {
    super(scope, file);
    grant(this, 'operator', `${PROGRAMS.operator}-${name}`, OPTIONAL_RIGHTS[name] as Rights);
  }
}

function grant(chart: Chart, account: Account, name: string, { cluster, namespaced }: Rights): void {
  const labels = labelsOf(PROGRAMS[account], account);
  const subjects = [{ kind: 'ServiceAccount', name: PROGRAMS[account], namespace: SYSTEM_NAMESPACE }];
  if (cluster.length > 0) {
    add(chart, 'ClusterRole', { metadata: { name, labels }, rules: cluster });
    add(chart, 'ClusterRoleBinding', {
      metadata: { name, labels },
      roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name },
      subjects,
    });
  }
  for (const [namespace, rules] of Object.entries(namespaced)) {
    const metadata = { name, namespace, labels };
    add(chart, 'Role', { metadata, rules });
    add(chart, 'RoleBinding', { metadata, roleRef: { apiGroup: RBAC, kind: 'Role', name }, subjects });
  }
}
