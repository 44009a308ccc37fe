import type { KubeObject } from '../../objects.js';
import type { BuiltinKind } from '../builtin.js';
import { ageColumn, nameColumn } from '../columns.js';
import { base64DataProblem, dataErrors, immutabilityErrors } from './data.js';

export const configMap: BuiltinKind = {
  kind: 'ConfigMap',
  shortNames: ['cm'],
  columns: [
    nameColumn,
    {
      name: 'Data',
      type: 'string',
      description: 'Data contains the configuration data.',
      cell: (object) => Object.keys(dataOf(object)).length,
    },
    ageColumn,
  ],
  strategy: {
    decode: ({ binaryData }) => base64DataProblem(binaryData),
    validate: (object, old) => [
      ...dataErrors(object.data),
      ...dataErrors(object.binaryData, 'binaryData'),
      ...immutabilityErrors(object, old, ['data', 'binaryData']),
    ],
  },
};

const dataOf = (object: KubeObject) => ({ ...(object.data as object), ...(object.binaryData as object) });
