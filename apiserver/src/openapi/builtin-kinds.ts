import type { JsonSchema } from '../schema/json-schema.js';
import type { DocumentedResource } from './documents.js';
import { anything, flag, integer, list, object, text, texts, time } from './meta-schemas.js';

const CONDITION = object('One condition.', {
  type: text('What it speaks of.'),
  status: text('True, False or Unknown.'),
  reason: text('Why, in one word for programs.'),
  message: text('Why, for people.'),
  lastTransitionTime: time('When the status last changed.'),
});

const REFERENCE = object('An object.', {
  apiVersion: text('Its API group and version.'),
  kind: text('Its kind.'),
  namespace: text('Its namespace.'),
  name: text('Its name.'),
  uid: text('Its uid.'),
  resourceVersion: text('The version that is meant.'),
  fieldPath: text('The part that is meant.'),
});

const SOURCE = object('Who reports.', { component: text('The program.'), host: text('The machine it runs on.') });

const NAMESPACE = object('A place for names: objects in it are listed, and deleted, together.', {
  spec: object('What is wanted.', { finalizers: list('Who must act before it may go.', { type: 'string' }) }),
  status: object('What is.', {
    phase: text('Active or Terminating.'),
    conditions: list('What holds up its end.', CONDITION),
  }),
});

const SECRET = object('Values that few may read. Kept encrypted.', {
  data: {
    type: 'object',
    description: 'The values, in base64.',
    additionalProperties: { type: 'string', format: 'byte' },
  },
  stringData: texts('Values as plain text, for writing; they are kept in data.'),
  type: text('What kind of values these are. Never changes.'),
  immutable: flag('Whether the values may never change.'),
});

const CONFIG_MAP = object('Values for programs.', {
  data: texts('Text values.'),
  binaryData: {
    type: 'object',
    description: 'Other values, in base64.',
    additionalProperties: { type: 'string', format: 'byte' },
  },
  immutable: flag('Whether the values may never change.'),
});

const EVENT = object(
  'Something that happened to an object. Kept for a while only.',
  {
    involvedObject: { ...REFERENCE, description: 'The object it happened to.' },
    related: { ...REFERENCE, description: 'Another object concerned.' },
    type: text('Normal or Warning.'),
    reason: text('What happened, in one CamelCase word.'),
    message: text('What happened, for people.'),
    action: text('What was done.'),
    count: integer('How often.'),
    eventTime: time('When it first happened.'),
    firstTimestamp: time('When it first happened.'),
    lastTimestamp: time('When it last happened.'),
    source: SOURCE,
    reportingComponent: text('The controller that reports.'),
    reportingInstance: text('Which of its instances.'),
    series: object('A run of the same event.', { count: integer('How often.'), lastObservedTime: time('When last.') }),
  },
  ['involvedObject'],
);

const LEASE = object('A claim to a role that its holder must renew.', {
  spec: object('Who holds it.', {
    holderIdentity: text('The holder.'),
    leaseDurationSeconds: integer('How long after the last renewal others must wait.'),
    acquireTime: time('When the holder got it.'),
    renewTime: time('When it was last renewed.'),
    leaseTransitions: integer('How often the holder changed.'),
    preferredHolder: text('Who should get it next.'),
    strategy: text('How holders take turns.'),
  }),
});

const NAMES = object(
  'What it is called.',
  {
    kind: text('In CamelCase, singular.'),
    listKind: text('The kind of its lists; by default the kind and List.'),
    plural: text('In URLs; lower case.'),
    singular: text('On the command line; by default the kind in lower case.'),
    shortNames: list('Short forms for the command line.', { type: 'string' }),
    categories: list('Groups of resources it is listed with, such as all.', { type: 'string' }),
  },
  ['kind', 'plural'],
);

const COLUMN = object(
  'One column of tables.',
  {
    name: text('Its head.'),
    type: text('integer, number, string, boolean or date.'),
    format: text('How the type is written.'),
    description: text('What it shows.'),
    priority: integer('0: always shown; more: in wide tables.'),
    jsonPath: text('The field that it shows.'),
  },
  ['name', 'type', 'jsonPath'],
);

const DEFINED_VERSION = object(
  'One version of the resource.',
  {
    name: text('v1, v1alpha1, …'),
    served: flag('Whether clients may use it.'),
    storage: flag('Whether objects are kept in it; true for exactly one.'),
    schema: object('What its objects look like.', {
      openAPIV3Schema: anything('A structural schema: types, limits and CEL rules.'),
    }),
    subresources: object('Parts with a URL of their own.', {
      status: anything('There is /status, and only it changes the status.'),
    }),
    additionalPrinterColumns: list('Columns of tables.', COLUMN),
    selectableFields: list('Fields that field selectors may name.', object('One field.', { jsonPath: text('Where.') })),
    deprecated: flag('Whether clients are warned.'),
    deprecationWarning: text('What they are told.'),
  },
  ['name', 'served', 'storage'],
);

const DEFINITION = object(
  'A resource that is served because it is described here.',
  {
    spec: object(
      'The resource.',
      {
        group: text('Its API group; a domain.'),
        names: NAMES,
        scope: text('Cluster or Namespaced.'),
        versions: list('Its versions.', DEFINED_VERSION),
        conversion: object('How versions become one another.', { strategy: text('None.') }),
        preserveUnknownFields: flag('Must be false.'),
      },
      ['group', 'names', 'scope', 'versions'],
    ),
    status: object('What is served.', {
      acceptedNames: { ...NAMES, description: 'The names it got.' },
      conditions: list('Whether its names were accepted and it is served.', CONDITION),
      storedVersions: list('Versions that objects may be kept in.', { type: 'string' }),
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
