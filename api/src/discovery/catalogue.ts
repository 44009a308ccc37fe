/** Choices for a project: regions, plans and backend types. */
import { availableServices, type OpenedServices, PLANS, PROJECT_TYPES, type ProjectType, REGIONS } from '@slipway/crds';
import Type from 'typebox';
import { Nullable, oneOf } from '../http/schema.js';

export const Region = Type.Object(
  {
    id: oneOf(REGIONS, { description: 'What `region` of a project takes.' }),
    name: Type.String({ description: 'For people.' }),
    city: Type.String({ description: 'Where the datacenter stands.' }),
    country: Type.String({ description: 'ISO 3166-1 alpha-2.' }),
    datacenter: Type.String({ description: "The provider's location, for dedicated servers." }),
    default: Type.Boolean({ description: 'Taken when none is named.' }),
  },
  { $id: 'Region', additionalProperties: false },
);
export type Region = Type.Static<typeof Region>;

export const regions: Region[] = [
  { id: 'eu-central', name: 'Central Europe', city: 'Falkenstein', country: 'DE', datacenter: 'fsn1', default: true },
  { id: 'eu-west', name: 'Western Europe', city: 'Nuremberg', country: 'DE', datacenter: 'nbg1', default: false },
  { id: 'eu-north', name: 'Northern Europe', city: 'Helsinki', country: 'FI', datacenter: 'hel1', default: false },
  { id: 'us-east', name: 'US East', city: 'Ashburn, Virginia', country: 'US', datacenter: 'ash', default: false },
  { id: 'us-west', name: 'US West', city: 'Hillsboro, Oregon', country: 'US', datacenter: 'hil', default: false },
  { id: 'ap-south', name: 'Asia Pacific South', city: 'Singapore', country: 'SG', datacenter: 'sin', default: false },
];

export const Plan = Type.Object(
  {
    id: oneOf(PLANS, { description: 'What `plan` of a project takes.' }),
    name: Type.String({ description: 'For people.' }),
    price_monthly: Type.Number({ description: 'A list price, in `currency`; a self-hosted platform bills nobody.' }),
    currency: Type.String({ description: 'ISO 4217.' }),
    server: Type.Object(
      {
        type: Type.String({ description: 'The server type of a dedicated project.' }),
        vcpus: Type.Number({ description: 'Virtual processors.' }),
        memory_mb: Type.Integer({ description: 'Memory, in MB.' }),
        disk_gb: Type.Integer({ description: 'Disk, in GB.' }),
      },
      { description: 'What a dedicated project of this plan runs on.' },
    ),
    default: Type.Boolean({ description: 'Taken when none is named.' }),
  },
  { $id: 'Plan', additionalProperties: false },
);
export type Plan = Type.Static<typeof Plan>;

export const plans: Plan[] = [
  plan('free', 'Free', 0, { type: 'cpx11', vcpus: 2, memory_mb: 2048, disk_gb: 40 }),
  plan('starter', 'Starter', 9, { type: 'cpx11', vcpus: 2, memory_mb: 2048, disk_gb: 40 }),
  plan('pro', 'Pro', 25, { type: 'cpx21', vcpus: 3, memory_mb: 4096, disk_gb: 80 }),
  plan('team', 'Team', 59, { type: 'cpx31', vcpus: 4, memory_mb: 8192, disk_gb: 160 }),
  plan('enterprise', 'Enterprise', 119, { type: 'cpx41', vcpus: 8, memory_mb: 16_384, disk_gb: 240 }),
];

function plan(id: Plan['id'], name: string, price: number, server: Plan['server']): Plan {
  return { id, name, price_monthly: price, currency: 'EUR', server, default: id === 'free' };
}

export const BackendType = Type.Object(
  {
    id: oneOf(PROJECT_TYPES, { description: 'What `backend_type` of a project takes.' }),
    name: Type.String({ description: 'For people.' }),
    description: Type.String({ description: 'What it is.' }),
    provisioning_time: Type.String({ description: 'How long it takes until it is healthy.' }),
    provisioning_seconds: Type.Object(
      { min: Type.Integer({ description: 'At best.' }), max: Type.Integer({ description: 'At most, usually.' }) },
      { description: 'The same, for programs.' },
    ),
    services: Type.Array(Type.String(), { description: 'What a project of this type serves.' }),
    available: Type.Boolean({ description: 'Whether it can be created here.' }),
    reason: Nullable(Type.String(), { description: 'Why it can not be created here; null when it can.' }),
    default: Type.Boolean({ description: 'Taken when none is named.' }),
  },
  { $id: 'BackendType', additionalProperties: false },
);
export type BackendType = Type.Static<typeof BackendType>;

const NO_ENGINE = 'No engine for this type is installed on this platform.';

export const backendTypes: BackendType[] = [
  {
    id: 'shared',
    name: 'Shared',
    description: 'A database of its own on a shared cluster, with auth and a REST API.',
    provisioning_time: 'about 2 seconds',
    provisioning_seconds: { min: 0, max: 2 },
    services: ['database', ...availableServices('shared', 'free', {})],
    available: true,
    reason: null,
    default: true,
  },
  {
    id: 'dedicated',
    name: 'Dedicated',
    description: 'A private virtual machine at a cloud provider, with every service.',
    provisioning_time: '3-8 minutes',
    provisioning_seconds: { min: 180, max: 480 },
    services: ['database', ...availableServices('dedicated', 'free', {})],
    available: false,
    reason: NO_ENGINE,
    default: false,
  },
  {
    id: 'frontend',
    name: 'Frontend',
    description: 'A static site or single-page app, built from a git repository. No database.',
    provisioning_time: 'a few seconds, and then the time of its build',
    provisioning_seconds: { min: 1, max: 300 },
    services: ['hosting'],
    available: false,
    reason: NO_ENGINE,
    default: false,
  },
  {
    id: 'app',
    name: 'App',
    description:
      'A persistent container with 0.5 vCPU and 512 MB of memory, built from the Dockerfile at the root of a git repository. It must listen on $PORT.',
    provisioning_time: 'a few seconds, and then the time of its build',
    provisioning_seconds: { min: 1, max: 300 },
    services: ['app'],
    available: false,
    reason: NO_ENGINE,
    default: false,
  },
];

/** With the services that this installation opens beyond the availability matrix. */
export const openedBackendTypes = (opened: OpenedServices): BackendType[] =>
  backendTypes.map((type) => {
    const more = opened[type.id]?.filter((name) => !type.services.includes(name)) ?? [];
    return { ...type, services: [...type.services, ...more] };
  });

export const backendType = (type: ProjectType) => backendTypes.find(({ id }) => id === type) as BackendType;
