/** The way to the management API: its host is that of the site's public URL. Projects have Ingresses that the operator makes. */
import { PROGRAMS, type Site, SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { labelsOf } from '../names.js';
import { add } from '../objects.js';

export class ApiRoute extends Chart {
  constructor(scope: Construct, { publicUrl, ingress }: Site) {
    super(scope, 'api-route', { namespace: SYSTEM_NAMESPACE });
    const name = PROGRAMS.api;
    const { hostname, protocol } = new URL(publicUrl);
    const { className, clusterIssuer, tlsSecretName = `${name}-tls` } = ingress;
    const issuer = clusterIssuer ? { 'cert-manager.io/cluster-issuer': clusterIssuer } : {};
    const backend = { service: { name, port: { name: 'http' } } };
    add(this, 'Ingress', {
      metadata: { name, labels: labelsOf(name, 'api'), annotations: { ...ingress.annotations, ...issuer } },
      spec: {
        ...(className ? { ingressClassName: className } : {}),
        ...(protocol === 'https:' ? { tls: [{ hosts: [hostname], secretName: tlsSecretName }] } : {}),
        rules: [{ host: hostname, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }],
      },
    });
  }
}
