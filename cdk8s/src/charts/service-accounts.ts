/** Who the programs are at the Kubernetes API. Its token is mounted where a Deployment says so, and nowhere else. */
import { SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { labelsOf, objectNameOf, PROGRAMS } from '../names.js';
import { add } from '../objects.js';

export class ServiceAccounts extends Chart {
  constructor(scope: Construct) {
    super(scope, 'service-accounts', { namespace: SYSTEM_NAMESPACE });
    for (const program of PROGRAMS) {
      const name = objectNameOf(program);
      add(this, 'ServiceAccount', {
        metadata: { name, labels: labelsOf(name, program) },
        automountServiceAccountToken: false,
      });
    }
  }
}
