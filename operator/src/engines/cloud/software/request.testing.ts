/** A request for a machine's state, whose services only wait. */
import { SERVICES, type ServiceUnit } from './state/service.js';
import type { StateRequest } from './state/state.js';

const block = (label: string) => `-----BEGIN ${label}-----\nYWJj\n-----END ${label}-----\n`;

const waiting = { command: ['/bin/sleep', 'infinity'], environment: { WAITS: 'for ever' } } as const;

export const requestOf = (more: Partial<StateRequest> = {}): StateRequest => ({
  release: 'dcf895fab7de',
  machine: { cores: 2, memoryGb: 2 },
  superuserPassword: 'the password of the superuser',
  certificate: { chain: block('CERTIFICATE'), privateKey: block('PRIVATE KEY') },
  services: Object.fromEntries(SERVICES.map((name) => [name, waiting])) as Record<ServiceUnit, typeof waiting>,
  ...more,
});
