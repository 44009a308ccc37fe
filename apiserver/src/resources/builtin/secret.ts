import type { KubeObject } from '../../objects.js';
import type { FieldError } from '../../schema/index.js';
import type { BuiltinKind } from '../builtin.js';
import { ageColumn, nameColumn } from '../columns.js';
import { base64DataProblem, dataErrors, immutabilityErrors } from './data.js';

/** The keys that a Secret of each type must have. */
const REQUIRED: Record<string, string[]> = {
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
  'kubernetes.io/ssh-auth': ['ssh-privatekey'],
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson'],
  'kubernetes.io/dockercfg': ['.dockercfg'],
};

export const secret: BuiltinKind = {
  kind: 'Secret',
  columns: [
    nameColumn,
    {
      name: 'Type',
      type: 'string',
      description:
        'Used to facilitate programmatic handling of secret data. More info: ' +
        'https://kubernetes.io/docs/concepts/configuration/secret/#secret-types',
      cell: (object) => object.type,
    },
    {
      name: 'Data',
      type: 'string',
      description:
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The " +
        'serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly ' +
        'non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4',
      cell: (object) => Object.keys((object.data ?? {}) as object).length,
    },
    ageColumn,
  ],
  strategy: {
    decode: ({ data }) => base64DataProblem(data),
    prepareCreate: moveStringData,
    prepareUpdate(object, old) {
      moveStringData(object);
      // An update without a type keeps the old type.
      object.type ||= old.type;
    },
    validate: (object, old) => [
      ...(old ? typeErrors(object, old) : []),
      ...dataErrors(object.data),
      ...requiredErrors(object),
      ...immutabilityErrors(object, old, ['data']),
    ],
    fieldNames: ['type'],
    fields: (object) => ({ type: String(object.type ?? '') }),
  },
};

/** Moves `stringData`, which is only for writing, into `data`. */
function moveStringData(object: KubeObject): void {
  const { stringData } = object;
  if (stringData && Object.keys(stringData).length > 0) {
    const encoded = Object.entries(stringData).map(([key, value]) => [
      key,
      Buffer.from(String(value)).toString('base64'),
    ]);
    object.data = { ...(object.data as object), ...Object.fromEntries(encoded) };
  }
  delete object.stringData;
  object.type ||= 'Opaque';
}

const typeErrors = (object: KubeObject, old: KubeObject): FieldError[] =>
  object.type === old.type
    ? []
    : [{ type: 'FieldValueInvalid', field: 'type', badValue: object.type, detail: 'field is immutable' }];

function requiredErrors(object: KubeObject): FieldError[] {
  const data = (object.data ?? {}) as Record<string, string>;
  if (object.type === 'kubernetes.io/basic-auth') {
    if ('username' in data || 'password' in data) return [];
    return ['username', 'password'].map((key) => required(key));
  }
  return (REQUIRED[object.type as string] ?? []).filter((key) => !(key in data)).map((key) => required(key));
}

const required = (key: string): FieldError => ({ type: 'FieldValueRequired', field: `data[${key}]`, detail: '' });
