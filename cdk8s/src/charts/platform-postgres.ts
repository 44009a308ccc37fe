/**
 * The Postgres of the platform's own database: one pod with a volume. A site that names its own Postgres by a URL omits
 * it.
 */
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { labelsOf, POSTGRES_SECRET, selectorOf } from '../names.js';
import { add } from '../objects.js';
import { containerSecurity, podSecurity, TMP } from '../pod.js';

/** The official image's user `postgres`. */
const USER = 999;

export class PlatformPostgres extends Chart {
  constructor(scope: Construct) {
    super(scope, 'platform-postgres', { namespace: SYSTEM_NAMESPACE });
    const metadata = { name: PROGRAMS.postgres, labels: labelsOf(PROGRAMS.postgres, 'database') };
    add(this, 'Service', {
      metadata,
      spec: {
        selector: selectorOf(PROGRAMS.postgres),
        ports: [{ name: 'postgres', port: 5432, targetPort: 'postgres' }],
      },
    });
    add(this, 'StatefulSet', {
      metadata,
      spec: {
        serviceName: PROGRAMS.postgres,
        replicas: 1,
        selector: { matchLabels: selectorOf(PROGRAMS.postgres) },
        template: { metadata: { labels: metadata.labels }, spec: podSpec() },
        volumeClaimTemplates: [
          {
            metadata: { name: 'data', labels: metadata.labels },
            spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } },
          },
        ],
      },
    });
  }
}

function podSpec() {
  const ask = { exec: { command: ['pg_isready', '-h', '127.0.0.1', '-U', 'postgres'] }, timeoutSeconds: 5 };
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    securityContext: podSecurity(USER),
    terminationGracePeriodSeconds: 60,
    containers: [
      {
        name: 'postgres',
        image: 'postgres:18',
        imagePullPolicy: 'IfNotPresent',
        env: [
          {
            name: 'POSTGRES_PASSWORD',
            valueFrom: { secretKeyRef: { name: POSTGRES_SECRET.name, key: POSTGRES_SECRET.password } },
          },
        ],
        ports: [{ name: 'postgres', containerPort: 5432 }],
        startupProbe: { ...ask, periodSeconds: 1, failureThreshold: 300 },
        livenessProbe: { ...ask, periodSeconds: 20, failureThreshold: 6 },
        readinessProbe: { ...ask, periodSeconds: 5, failureThreshold: 2 },
        resources: { requests: { cpu: '100m', memory: '256Mi' }, limits: { memory: '1Gi' } },
        securityContext: containerSecurity,
        volumeMounts: [
          TMP.mount,
          { name: 'run', mountPath: '/var/run/postgresql' },
          { name: 'data', mountPath: '/var/lib/postgresql' },
        ],
      },
    ],
    volumes: [TMP.volume, { name: 'run', emptyDir: { sizeLimit: '16Mi' } }],
  };
}
