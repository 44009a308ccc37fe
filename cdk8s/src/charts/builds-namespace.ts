/**
 * The namespace of builds' pods. Kaniko runs as root of its container, which the standard `restricted` does not admit,
 * so no pods of projects or of the platform run here. The pods can connect to the egress proxy alone, and not to each
 * other.
 */
import { BUILDS_NAMESPACE } from '@slipway/installation';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { add } from '../objects.js';

const STANDARD = 'baseline';
/**
 * More than the builds that run at once, as the pods of ended builds stay until the operator has recorded the results.
 */
const MOST = { pods: '200', 'count/jobs.batch': '400', 'count/secrets': '400', 'count/configmaps': '20' };

export class BuildsNamespace extends Chart {
  constructor(scope: Construct) {
    super(scope, 'builds-namespace');
    const name = BUILDS_NAMESPACE;
    const modes = ['enforce', 'warn', 'audit'].map((mode) => [`pod-security.kubernetes.io/${mode}`, STANDARD]);
    const labels = { ...Object.fromEntries(modes), 'app.kubernetes.io/part-of': 'slipway' };
    add(this, 'Namespace', { metadata: { name, labels } });
    add(this, 'ResourceQuota', { metadata: { name: 'builds', namespace: name }, spec: { hard: MOST } });
  }
}
