/** Choices for a project: regions, plans and backend types. */
import {
  DEFAULT_TYPE,
  MACHINE_SIZES,
  PLANS,
  PROJECT_TYPES,
  type ProjectType,
  REGIONS,
  SIZE_OF_PLAN,
  TYPES,
} from '@slipway/crds';
import { availableServices, type Installation, whyTypeUnavailable } from '@slipway/installation';
import Type from 'typebox';
import { Nullable, oneOf } from '../http/schema.js';

export const Region = Type.Object(
  {
    id: oneOf(REGIONS, { description: 'The value of a project’s `region`.' }),
    name: Type.String({ description: 'For people.' }),
    city: Type.String({ description: 'The city of the datacenter.' }),
    country: Type.String({ description: 'ISO 3166-1 alpha-2.' }),
    datacenter: Type.String({ description: "The provider's location, for dedicated servers." }),
    default: Type.Boolean({ description: 'True for the default.' }),
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
    id: oneOf(PLANS, { description: 'The value of a project’s `plan`.' }),
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
      { description: 'The server of a dedicated project of this plan.' },
    ),
    default: Type.Boolean({ description: 'True for the default.' }),
  },
  { $id: 'Plan', additionalProperties: false },
);
export type Plan = Type.Static<typeof Plan>;

export const plans: Plan[] = [
  plan('free', 'Free', 0),
  plan('starter', 'Starter', 9),
  plan('pro', 'Pro', 25),
  plan('team', 'Team', 59),
  plan('enterprise', 'Enterprise', 119),
];

function plan(id: Plan['id'], name: string, price: number): Plan {
  const type = SIZE_OF_PLAN[id];
  const { cores, memoryGb, diskGb } = MACHINE_SIZES[type];
  const server = { type, vcpus: cores, memory_mb: memoryGb * 1024, disk_gb: diskGb };
  return { id, name, price_monthly: price, currency: 'EUR', server, default: id === 'free' };
}

export const BackendType = Type.Object(
  {
    id: oneOf(PROJECT_TYPES, { description: 'The value of a project’s `backend_type`.' }),
    name: Type.String({ description: 'For people.' }),
    description: Type.String({ description: 'A description of the type.' }),
    provisioning_time: Type.String({ description: 'The usual time until a project is healthy.' }),
    provisioning_seconds: Type.Object(
      { min: Type.Integer({ description: 'At best.' }), max: Type.Integer({ description: 'At most, usually.' }) },
      { description: 'The provisioning time in seconds.' },
    ),
    services: Type.Array(Type.String(), { description: 'Services of a project of this type.' }),
    available: Type.Boolean({ description: 'True if projects of this type can be created here.' }),
    reason: Nullable(Type.String(), { description: 'The reason if the type is unavailable here, else null.' }),
    default: Type.Boolean({ description: 'True for the default.' }),
  },
  { $id: 'BackendType', additionalProperties: false },
);
export type BackendType = Type.Static<typeof BackendType>;

type Description = Pick<BackendType, 'name' | 'description' | 'provisioning_time'> & {
  seconds: BackendType['provisioning_seconds'];
  /** Services in addition to a database. */
  serves?: string[];
};

const DESCRIPTIONS: Readonly<Record<ProjectType, Description>> = {
  shared: {
    name: 'Shared',
    description: 'A database of its own on a shared cluster, with auth and a REST API.',
    provisioning_time: 'about 2 seconds',
    seconds: { min: 0, max: 2 },
  },
  dedicated: {
    name: 'Dedicated',
    description: 'A private virtual machine at a cloud provider, with every service.',
    provisioning_time: '3-8 minutes',
    seconds: { min: 180, max: 480 },
  },
  frontend: {
    name: 'Frontend',
    description: 'A static site or single-page app, built from a git repository. No database.',
    provisioning_time: 'a few seconds, and then the time of its build',
    seconds: { min: 1, max: 300 },
    serves: ['hosting'],
  },
  app: {
    name: 'App',
    description:
      'A persistent container with 0.5 vCPU and 512 MB of memory, ' +
      'built from the Dockerfile at the root of a git repository. It must listen on $PORT.',
    provisioning_time: 'a few seconds, and then the time of its build',
    seconds: { min: 1, max: 300 },
    serves: ['app'],
  },
};

/** Returns the types, with the reason why one is unavailable here, and with services that this installation opens. */
export const backendTypesOf = (installation: Pick<Installation, 'publicUrl' | 'projectsDomain' | 'openedServices'>) =>
  PROJECT_TYPES.map((id): BackendType => {
    const { seconds, serves = [], ...told } = DESCRIPTIONS[id];
    const services = availableServices(id, 'free', installation.openedServices);
    const reason = whyTypeUnavailable(id, installation) ?? null;
    return {
      id,
      ...told,
      provisioning_seconds: seconds,
      services: [...(TYPES[id].hasDatabase ? ['database'] : []), ...services, ...serves],
      available: reason === null,
      reason,
      default: id === DEFAULT_TYPE,
    };
  });

export const exampleBackendTypes = backendTypesOf({ publicUrl: 'http://localhost:4000', openedServices: {} });
