import type { JsonSchema } from '../schema/json-schema.js';
import type { DocumentedResource } from './documents.js';
import { anything, flag, integer, list, object, text, texts, time } from './meta-schemas.js';

const CONDITION = object('One condition.', {
  type: text('The type of the condition.'),
  status: text('True, False or Unknown.'),
  reason: text('The reason in one word, for programs.'),
  message: text('The reason in a sentence, for people.'),
  lastTransitionTime: time('The time when the status last changed.'),
});

const REFERENCE = object('An object.', {
  apiVersion: text('The API group and version of the object.'),
  kind: text('Its kind.'),
  namespace: text('Its namespace.'),
  name: text('Its name.'),
  uid: text('Its uid.'),
  resourceVersion: text('The version of the object.'),
  fieldPath: text('The part of the object.'),
});

const SOURCE = object('The source of the event.', {
  component: text('The program.'),
  host: text('The machine it runs on.'),
});

const NAMESPACE = object('A scope for names. Its objects can be listed together, and are deleted with it.', {
  spec: object('The desired state.', {
    finalizers: list('Finalizers that must be removed before the namespace is deleted.', { type: 'string' }),
  }),
  status: object('What is.', {
    phase: text('Active or Terminating.'),
    conditions: list('The reasons why the namespace is not deleted yet.', CONDITION),
  }),
});

const SECRET = object('Confidential values, stored encrypted.', {
  data: {
    type: 'object',
    description: 'The values, in base64.',
    additionalProperties: { type: 'string', format: 'byte' },
  },
  stringData: texts('Values as plain text, for writing only. They are stored in data.'),
  type: text('The type of the values. Immutable.'),
  immutable: flag('True if the values are immutable.'),
});

const CONFIG_MAP = object('Values for programs.', {
  data: texts('Text values.'),
  binaryData: {
    type: 'object',
    description: 'Other values, in base64.',
    additionalProperties: { type: 'string', format: 'byte' },
  },
  immutable: flag('True if the values are immutable.'),
});

const EVENT = object(
  'Something that happened to an object. Deleted after a while.',
  {
    involvedObject: { ...REFERENCE, description: 'The object of the event.' },
    related: { ...REFERENCE, description: 'Another object that is involved.' },
    type: text('Normal or Warning.'),
    reason: text('The reason in one CamelCase word.'),
    message: text('A description for people.'),
    action: text('The action that was taken.'),
    count: integer('How often.'),
    eventTime: time('The time of the first occurrence.'),
    firstTimestamp: time('The time of the first occurrence.'),
    lastTimestamp: time('The time of the last occurrence.'),
    source: SOURCE,
    reportingComponent: text('The controller that reports.'),
    reportingInstance: text('The instance of the controller.'),
    series: object('A series of equal events.', {
      count: integer('The number of occurrences.'),
      lastObservedTime: time('The last time.'),
    }),
  },
  ['involvedObject'],
);

const LEASE = object('A claim to a role. Its holder must renew it.', {
  spec: object('The holder and the times of the lease.', {
    holderIdentity: text('The holder.'),
    leaseDurationSeconds: integer('Time in seconds that others must wait after the last renewal.'),
    acquireTime: time('The time when the holder acquired the lease.'),
    renewTime: time('The time of the last renewal.'),
    leaseTransitions: integer('The number of changes of the holder.'),
    preferredHolder: text('The preferred next holder.'),
    strategy: text('The strategy for choosing the holder.'),
  }),
});

const NAMES = object(
  'The names of the resource.',
  {
    kind: text('The kind, in CamelCase and singular.'),
    listKind: text('The kind of lists. Default: the kind followed by List.'),
    plural: text('The name in URLs, in lower case.'),
    singular: text('The name on the command line. Default: the kind in lower case.'),
    shortNames: list('Short forms for the command line.', { type: 'string' }),
    categories: list('Groups of resources that include this one, such as all.', { type: 'string' }),
  },
  ['kind', 'plural'],
);

const COLUMN = object(
  'One column of tables.',
  {
    name: text('Its head.'),
    type: text('integer, number, string, boolean or date.'),
    format: text('The format of the type.'),
    description: text('The description of the column.'),
    priority: integer('0: always shown. Higher: shown only in wide tables.'),
    jsonPath: text('The field to show.'),
  },
  ['name', 'type', 'jsonPath'],
);

const DEFINED_VERSION = object(
  'One version of the resource.',
  {
    name: text('v1, v1alpha1, …'),
    served: flag('True if clients can use the version.'),
    storage: flag('True if objects are stored in this version. Exactly one version has true.'),
    schema: object('The schema of the objects.', {
      openAPIV3Schema: anything('A structural schema: types, limits and CEL rules.'),
    }),
    subresources: object('Parts of the object with separate URLs.', {
      status: anything('Enables /status, through which alone the status can be changed.'),
    }),
    additionalPrinterColumns: list('Columns of tables.', COLUMN),
    selectableFields: list(
      'Fields that field selectors may name.',
      object('One field.', { jsonPath: text('The path of the field.') }),
    ),
    deprecated: flag('True if clients get a warning.'),
    deprecationWarning: text('The text of the warning.'),
  },
  ['name', 'served', 'storage'],
);

const DEFINITION = object(
  'Defines a resource that the API serves.',
  {
    spec: object(
      'The resource.',
      {
        group: text('The API group, which is a domain.'),
        names: NAMES,
        scope: text('Cluster or Namespaced.'),
        versions: list('Its versions.', DEFINED_VERSION),
        conversion: object('The conversion between versions.', { strategy: text('None.') }),
        preserveUnknownFields: flag('Must be false.'),
      },
      ['group', 'names', 'scope', 'versions'],
    ),
    status: object('The observed state.', {
      acceptedNames: { ...NAMES, description: 'The accepted names.' },
      conditions: list('Conditions: the names are accepted, and the resource is served.', CONDITION),
      storedVersions: list('Versions in which objects may be stored.', { type: 'string' }),
    }),
  },
  ['spec'],
);

const builtin = (
  apiVersion: string,
  kind: string,
  plural: string,
  namespaced: boolean,
  schema: JsonSchema,
  subresources: readonly string[] = [],
): DocumentedResource => {
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  return { group, version, kind, listKind: `${kind}List`, plural, namespaced, subresources, schema };
};

/** Namespace, Secret, ConfigMap, Event, Lease and CustomResourceDefinition. */
export const builtinResources: readonly DocumentedResource[] = [
  builtin('v1', 'Namespace', 'namespaces', false, NAMESPACE, ['status', 'finalize']),
  builtin('v1', 'Secret', 'secrets', true, SECRET),
  builtin('v1', 'ConfigMap', 'configmaps', true, CONFIG_MAP),
  builtin('v1', 'Event', 'events', true, EVENT),
  builtin('coordination.k8s.io/v1', 'Lease', 'leases', true, LEASE),
  builtin('apiextensions.k8s.io/v1', 'CustomResourceDefinition', 'customresourcedefinitions', false, DEFINITION, [
    'status',
  ]),
];
