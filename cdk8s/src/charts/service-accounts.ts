/** The programs' accounts at the Kubernetes API. A token is mounted only where a Deployment names it. */
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { ACCOUNTS, type Account, labelsOf } from '../names.js';
import { add } from '../objects.js';

export class ServiceAccounts extends Chart {
  constructor(scope: Construct, accounts: readonly Account[] = ACCOUNTS) {
    super(scope, 'service-accounts', { namespace: SYSTEM_NAMESPACE });
    for (const account of accounts) {
      const name = PROGRAMS[account];
      add(this, 'ServiceAccount', {
        metadata: { name, labels: labelsOf(name, account) },
        automountServiceAccountToken: false,
      });
    }
  }
}
