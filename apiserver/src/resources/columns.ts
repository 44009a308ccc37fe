/** Columns that several kinds share, and columns of a CustomResourceDefinition. */
import type { KubeObject } from '../objects.js';
import { age } from './age.js';
import { compileJsonPath } from './json-path.js';
import type { Column } from './resource.js';

const NAME_TEXT =
  'Name must be unique within a namespace. Is required when creating resources, although some resources may allow a ' +
  'client to request the generation of an appropriate name automatically. Name is primarily intended for creation ' +
  'idempotence and configuration definition. Cannot be updated. More info: ' +
  'https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names';
const AGE_TEXT =
  'CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed ' +
  'to be set in happens-before order across separate operations. Clients may not set this value. It is represented ' +
  'in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: ' +
  'https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata';

export const nameColumn: Column = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: NAME_TEXT,
  cell: (object) => object.metadata.name,
};

export const ageColumn: Column = {
  name: 'Age',
  type: 'string',
  description: AGE_TEXT,
  cell: (object, now) => age(object.metadata.creationTimestamp, now),
};

export const createdAtColumn: Column = {
  name: 'Created At',
  type: 'date',
  description: AGE_TEXT,
  cell: (object) => object.metadata.creationTimestamp,
};

export interface PrinterColumn {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority?: number;
  jsonPath: string;
}

const ownAge: Column = {
  ...ageColumn,
  type: 'date',
  description: `Custom resource definition column (in JSONPath format): .metadata.creationTimestamp`,
};

export function customColumns(declared: readonly PrinterColumn[] | undefined): Column[] {
  if (!declared || declared.length === 0) return [nameColumn, { ...ownAge, description: AGE_TEXT }];
  return [nameColumn, ...declared.map(customColumn)];
}

function customColumn({ name, type, format, description, priority, jsonPath }: PrinterColumn): Column {
  const path = compileJsonPath(jsonPath);
  return {
    name,
    type,
    format: format ?? '',
    description: description || `Custom resource definition column (in JSONPath format): ${jsonPath}`,
    priority: priority ?? 0,
    cell: (object: KubeObject, now: number) => cellOf(path(object), type, now),
  };
}

function cellOf(values: unknown[], type: string, now: number): unknown {
  const [value] = values;
  if (value === undefined || value === null) return null;
  if (values.length > 1) return values.map(text).join(',');
  if (type === 'date') return age(value, now);
  if (type === 'integer') return Number.isFinite(Number(value)) ? Math.trunc(Number(value)) : null;
  if (type === 'number') return Number.isFinite(Number(value)) ? Number(value) : null;
  if (type === 'boolean') return typeof value === 'boolean' ? value : null;
  return text(value);
}

const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
