/** A Kubernetes API with our custom resources, and a Postgres, for tests. */
import type { TestPostgres } from '@slipway/postgres/testing.js';
import { pino } from 'pino';

export {
  clientOf,
  deleteAndWait,
  startTestKubernetes,
  type TestKubernetes,
} from '@slipway/kubernetes/testing.js';

export const silentLog = pino({ level: 'silent' });

export const adminUrl = ({ socket, port }: TestPostgres) =>
  `postgresql://slipway:test-superuser@/postgres?host=${encodeURIComponent(socket)}&port=${port}`;
