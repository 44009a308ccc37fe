/**
 * Objects that a real kube-apiserver rejects, with its errors. `definitions.test.ts` compares them with our code, and
 * `schema.cluster.test.ts` with the real server.
 */
import { SCHEMA_CASES } from './definition-cases.js';
import type { JsonObject } from './json-schema.js';

/** An API group for this process only, because other processes may use the real server too. */
const GROUP = `definitiontest-${process.pid}.slipway.dev`;

interface Definition extends JsonObject {
  metadata: { name: string };
  spec: JsonObject & { names: JsonObject; versions: JsonObject[] };
}

export const definition = (spec: JsonObject = { type: 'object' }): Definition => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `things.${GROUP}` },
  spec: {
    group: GROUP,
    names: { kind: 'Thing', plural: 'things', singular: 'thing', listKind: 'ThingList' },
    scope: 'Cluster',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', properties: { spec } } },
      },
    ],
  },
});

export const changed = (change: (made: Definition) => void): Definition => {
  const made = definition();
  change(made);
  return made;
};

const REQUIRED = (field: string) => [`${field}: Required value`];
const LABEL_1035 =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
  "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is " +
  "'[a-z]([-a-z0-9]*[a-z0-9])?')";
const MISNAMED = `metadata.name: Invalid value: "things.${GROUP}": must be spec.names.plural+"."+spec.group`;

export const REJECTED_DEFINITIONS: readonly { definition: Definition; refused: string[] }[] = [
  ...SCHEMA_CASES.map(({ spec, refused }) => ({ definition: definition(spec), refused })),
  {
    definition: changed((made) => {
      made.metadata.name = 'other.example.com';
    }),
    refused: ['metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'],
  },
  { definition: changed(({ spec }) => delete spec.scope), refused: REQUIRED('spec.scope') },
  {
    definition: changed(({ spec }) => Object.assign(spec, { scope: 'X' })),
    refused: ['spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced"'],
  },
  { definition: changed(({ spec }) => delete spec.group), refused: [MISNAMED, ...REQUIRED('spec.group')] },
  {
    definition: changed(({ spec }) => Object.assign(spec.names, { plural: 'Things' })),
    refused: [MISNAMED, `spec.names.plural: Invalid value: "Things": ${LABEL_1035}`],
  },
  {
    definition: changed(({ spec }) => delete spec.versions[0]?.schema),
    refused: REQUIRED('spec.versions[0].schema.openAPIV3Schema'),
  },
];

const SUBDOMAIN =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
  "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
  "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is " +
  "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " +
  'and must start and end with an alphanumeric character ' +
  "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
  "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/** Metadata of ConfigMaps, a kind that every server has, and the expected errors. */
export const REJECTED_METADATA: readonly { metadata: JsonObject; refused: string[] }[] = [
  { metadata: { name: 'a-b.c' }, refused: [] },
  { metadata: { name: 'A b' }, refused: [`metadata.name: Invalid value: "A b": ${SUBDOMAIN}`] },
  { metadata: {}, refused: ['metadata.name: Required value: name or generateName is required'] },
  {
    metadata: { name: 'a', labels: { 'a b': 'c' } },
    refused: [`metadata.labels: Invalid value: "a b": name part ${NAME_PART}`],
  },
  { metadata: { name: 'a', labels: { a: 'b c' } }, refused: [`metadata.labels: Invalid value: "b c": ${LABEL_VALUE}`] },
  {
    metadata: { name: 'a', labels: { 'a/': 'b' } },
    refused: [
      'metadata.labels: Invalid value: "a/": name part must be non-empty',
      `metadata.labels: Invalid value: "a/": name part ${NAME_PART}`,
    ],
  },
  {
    metadata: { name: 'a', labels: { 'a/b/c': 'b' } },
    refused: [
      `metadata.labels: Invalid value: "a/b/c": a qualified name ${NAME_PART} with an optional DNS subdomain prefix ` +
        "and '/' (e.g. 'example.com/MyName')",
    ],
  },
  { metadata: { name: 'a', annotations: { 'X/B': 'c' } }, refused: [] },
  {
    metadata: { name: 'a', annotations: { a: 'x'.repeat(270_000) } },
    refused: ['metadata.annotations: Too long: may not be more than 262144 bytes'],
  },
  {
    metadata: { name: 'a', finalizers: ['a.b/c d'] },
    refused: [`metadata.finalizers: Invalid value: "a.b/c d": name part ${NAME_PART}`],
  },
  {
    metadata: { name: 'a', ownerReferences: [{ apiVersion: '', kind: '', name: '', uid: '' }] },
    refused: [
      'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
      'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
      'metadata.ownerReferences.name: Invalid value: "": must not be empty',
      'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ],
  },
];
