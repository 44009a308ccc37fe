/** The roles of the programs, and their bindings. */
import { SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { labelsOf, objectNameOf, PROGRAMS, type Program } from '../names.js';
import { add } from '../objects.js';
import { RIGHTS } from '../rights.js';

const RBAC = 'rbac.authorization.k8s.io';

export class ProgramRights extends Chart {
  constructor(scope: Construct) {
    super(scope, 'rights');
    for (const program of PROGRAMS) {
      const { cluster, namespaced } = RIGHTS[program];
      bindCluster(this, program, objectNameOf(program), cluster);
      for (const [namespace, rules] of Object.entries(namespaced)) {
        const name = objectNameOf(program);
        const metadata = { name, namespace, labels: labelsOf(name, program) };
        add(this, 'Role', { metadata, rules });
        add(this, 'RoleBinding', {
          metadata,
          roleRef: { apiGroup: RBAC, kind: 'Role', name },
          subjects: [accountOf(program)],
        });
      }
    }
  }
}

export function bindCluster(chart: Chart, program: Program, name: string, rules: (typeof RIGHTS)[Program]['cluster']) {
  const metadata = { name, labels: labelsOf(objectNameOf(program), program) };
  add(chart, 'ClusterRole', { metadata, rules });
  add(chart, 'ClusterRoleBinding', {
    metadata,
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name },
    subjects: [accountOf(program)],
  });
}

const accountOf = (program: Program) => ({
  kind: 'ServiceAccount',
  name: objectNameOf(program),
  namespace: SYSTEM_NAMESPACE,
});
