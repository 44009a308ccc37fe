/** The two namespaces of an installation, in which only pods of the strictest standard may run. */
import { DATA_NAMESPACE, SYSTEM_NAMESPACE } from '@slipway/installation';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { add } from '../objects.js';

const RESTRICTED = Object.fromEntries(
  ['enforce', 'warn', 'audit'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
);

export class Namespaces extends Chart {
  constructor(scope: Construct) {
    super(scope, 'namespaces');
    for (const name of [SYSTEM_NAMESPACE, DATA_NAMESPACE]) {
      add(this, 'Namespace', { metadata: { name, labels: { ...RESTRICTED, 'app.kubernetes.io/part-of': 'slipway' } } });
    }
  }
}
