/** Schemas of the routes for forms of a project and their entries. */
import Type from 'typebox';
import { Id, Nullable, oneOf, Time } from '../http/schema.js';

const id = Id('The id of the project.');
const name = Type.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
  description: 'The name of the form, as in its address `/forms/{name}`.',
});
const EntryId = (description: string) => Type.String({ pattern: '^[1-9][0-9]{0,17}$', description });

export const FormPath = Type.Object({ id, name });
export type FormPath = Type.Static<typeof FormPath>;

export const EntryPath = Type.Object({ id, name, entry_id: EntryId('The id of the entry.') });
export type EntryPath = Type.Static<typeof EntryPath>;

export const FormView = Type.Object(
  {
    name,
    entries: Type.Integer({ description: 'The number of entries without a flag.' }),
    flagged: Type.Integer({ description: 'The number of flagged entries.' }),
    last_at: Nullable(Time('When the newest entry was received.')),
    keep_days: Nullable(Type.Integer(), {
      description: 'The days after which an entry is deleted; null: entries stay.',
    }),
  },
  { $id: 'Form', additionalProperties: false },
);
export type FormView = Type.Static<typeof FormView>;

export const Forms = Type.Object(
  { items: Type.Array(FormView, { description: 'The forms, by name.' }) },
  { $id: 'Forms', additionalProperties: false },
);
export type Forms = Type.Static<typeof Forms>;

export const FormChange = Type.Object(
  {
    keep_days: Nullable(Type.Integer({ minimum: 1, maximum: 3650 }), {
      description: 'The days after which an entry is deleted; null: entries stay.',
    }),
  },
  { $id: 'FormChange', additionalProperties: false },
);
export type FormChange = Type.Static<typeof FormChange>;

const flagged = Type.Optional(
  oneOf(['true', 'false'], { description: 'Returns only entries with a flag, or only those without.' }),
);

export const CsvQuery = Type.Object({ flagged }, { $id: 'FormCsvQuery', additionalProperties: false });
export type CsvQuery = Type.Static<typeof CsvQuery>;

export const EntriesQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 50, description: 'The maximum number.' })),
    before: Type.Optional(EntryId('The id of an entry; returns older ones.')),
    flagged,
  },
  { $id: 'FormEntriesQuery', additionalProperties: false },
);
export type EntriesQuery = Type.Static<typeof EntriesQuery>;

const Value = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);
const FLAGS = ['honeypot', 'rate_limit'] as const;

export const EntryView = Type.Object(
  {
    id: Type.String({ description: 'The id of the entry.' }),
    created_at: Time('When it was received.'),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      additionalProperties: Type.Union([Value, Type.Array(Value)]),
      description: 'The fields. A field that was sent more than once has a list.',
    }),
    flagged: Nullable(oneOf(FLAGS), {
      description: 'Why the entry is probably not a person’s; null: nothing is known against it.',
    }),
  },
  { $id: 'FormEntry', additionalProperties: false },
);
export type EntryView = Type.Static<typeof EntryView>;

export const Entries = Type.Object(
  { items: Type.Array(EntryView, { description: 'The entries, newest first. A page of large ones has fewer.' }) },
  { $id: 'FormEntries', additionalProperties: false },
);
export type Entries = Type.Static<typeof Entries>;
