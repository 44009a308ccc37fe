import type { KubeObject } from '../../objects.js';
import type { FieldError } from '../../schema/index.js';
import { age } from '../age.js';
import type { BuiltinKind } from '../builtin.js';
import { nameColumn } from '../columns.js';
import type { Column } from '../resource.js';

type Text = Record<string, string | undefined>;
const involved = (object: KubeObject) => (object.involvedObject ?? {}) as Text;
const source = (object: KubeObject) => (object.source ?? {}) as Text;
const series = (object: KubeObject) => object.series as { count: number; lastObservedTime: string } | undefined;

const column = (name: string, cell: Column['cell'], priority = 0): Column => ({ name, type: 'string', priority, cell });

const lastSeen = (object: KubeObject) => series(object)?.lastObservedTime ?? object.lastTimestamp ?? object.eventTime;
const firstSeen = (object: KubeObject) => object.firstTimestamp ?? object.eventTime;

const FIELDS = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'] as const;

export const event: BuiltinKind = {
  kind: 'Event',
  shortNames: ['ev'],
  createOnUpdate: true,
  columns: [
    column('Last Seen', (object, now) => age(lastSeen(object), now)),
    column('Type', (object) => object.type ?? ''),
    column('Reason', (object) => object.reason ?? ''),
    column('Object', (object) => `${(involved(object).kind ?? '').toLowerCase()}/${involved(object).name ?? ''}`),
    column('Subobject', (object) => involved(object).fieldPath ?? '', 1),
    column('Source', (object) => sourceCell(object), 1),
    column('Message', (object) => String(object.message ?? '').trim()),
    column('First Seen', (object, now) => age(firstSeen(object), now), 1),
    {
      ...column('Count', (object) => Math.max(Number(series(object)?.count ?? object.count ?? 1), 1), 1),
      type: 'integer',
    },
    { ...nameColumn, priority: 1 },
  ],
  strategy: {
    prepareCreate(object) {
      object.reportingComponent ??= source(object).component ?? '';
      object.reportingInstance ??= '';
      object.source ??= {};
    },
    validate: (object) => namespaceErrors(object),
    fieldNames: [
      ...FIELDS.map((field) => `involvedObject.${field}`),
      ...['reason', 'reportingComponent', 'source', 'type'],
    ],
    fields: (object) => ({
      ...Object.fromEntries(FIELDS.map((field) => [`involvedObject.${field}`, involved(object)[field] ?? ''])),
      reason: String(object.reason ?? ''),
      reportingComponent: String(object.reportingComponent ?? ''),
      source: source(object).component || String(object.reportingComponent ?? ''),
      type: String(object.type ?? ''),
    }),
  },
};

function sourceCell(object: KubeObject): string {
  const { component, host } = source(object);
  const name = component || String(object.reportingComponent ?? '');
  return host ? `${name}, ${host}` : name;
}

/** Events of cluster-scoped objects are in the namespace `default`. */
function namespaceErrors(object: KubeObject): FieldError[] {
  const namespace = involved(object).namespace ?? '';
  const own = object.metadata.namespace;
  if (namespace === own || (namespace === '' && own === 'default')) return [];
  return [
    {
      type: 'FieldValueInvalid',
      field: 'involvedObject.namespace',
      badValue: namespace,
      detail: 'does not match event.namespace',
    },
  ];
}
