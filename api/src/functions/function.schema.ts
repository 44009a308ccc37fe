/** JSON schemas of edge functions. */
import Type from 'typebox';
import { Id, Nullable, oneOf, Time } from '../http/schema.js';

const Name = Type.String({
  pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$',
  description: 'The last part of its address; letters, digits, hyphens and underscores. Unique within the project.',
  examples: ['hello'],
});
const Code = Type.String({
  minLength: 1,
  maxLength: 1_000_000,
  pattern: '^[^\\u0000]*$',
  description:
    'The source, in TypeScript or JavaScript: it calls `Deno.serve(handler)`, or exports `{ fetch }` by default.',
  examples: ['Deno.serve(() => new Response("hello"));'],
});
const VerifyJwt = Type.Boolean({
  default: true,
  description: 'True if a call needs a token of the project, such as its anon key.',
});

export const FunctionId = Type.Object({
  id: Id('The id of the project.'),
  funcId: Id('The id of the function.'),
});
export type FunctionId = Type.Static<typeof FunctionId>;

export const NewFunction = Type.Object(
  { name: Name, code: Code, verify_jwt: Type.Optional(VerifyJwt) },
  { $id: 'NewEdgeFunction', additionalProperties: false },
);
export type NewFunction = Type.Static<typeof NewFunction>;

export const FunctionChange = Type.Object(
  { code: Type.Optional(Code), verify_jwt: Type.Optional(VerifyJwt) },
  { $id: 'EdgeFunctionChange', additionalProperties: false, minProperties: 1, description: 'At least one field.' },
);
export type FunctionChange = Type.Static<typeof FunctionChange>;

const SourceProblem = Type.Object({
  message: Type.String({ description: 'The problem.' }),
  line: Nullable(Type.Integer(), { description: 'Counted from 1.' }),
  column: Nullable(Type.Integer(), { description: 'Counted from 1.' }),
});

const summary = {
  id: Id('The id, as used in the routes of one function.'),
  name: Name,
  status: oneOf(['pending', 'deployed', 'error'], {
    description: 'deployed: callers get the requested version; error: `message` and `problems` say why they do not.',
  }),
  message: Type.String({ maxLength: 500, description: 'The state in a sentence.' }),
  problems: Type.Array(SourceProblem, { description: 'Why the requested version was not deployed.' }),
  version: Nullable(Type.Integer(), { description: 'The version of the code; null for a moment after it changed.' }),
  deployed_version: Nullable(Type.Integer(), { description: 'The version that callers get; null: none.' }),
  verify_jwt: VerifyJwt,
  url: Type.String({ description: 'The URL of the function.' }),
  created_at: Time('When it was created.'),
};

export const ListedFunction = Type.Object(summary, { $id: 'EdgeFunction', additionalProperties: false });
export type ListedFunction = Type.Static<typeof ListedFunction>;
export const FullFunction = Type.Object(
  { ...summary, code: Code },
  { $id: 'FullEdgeFunction', additionalProperties: false },
);
export type FullFunction = Type.Static<typeof FullFunction>;

export const FunctionVersion = Type.Object(
  {
    version: Type.Integer({ description: 'Increases with each change of the code.' }),
    deployed: Type.Boolean({ description: 'True if callers get this version.' }),
    created_at: Time('When this code was saved.'),
  },
  { $id: 'EdgeFunctionVersion', additionalProperties: false },
);
export type FunctionVersion = Type.Static<typeof FunctionVersion>;

export const Rollback = Type.Object(
  { version: Type.Integer({ minimum: 1, maximum: 2 ** 53 - 1, description: 'The version that callers are to get.' }) },
  { $id: 'EdgeFunctionRollback', additionalProperties: false },
);
export type Rollback = Type.Static<typeof Rollback>;

export const LogQuery = Type.Object(
  {
    after: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 2 ** 53 - 1, description: 'Returns only lines with a greater `sequence`.' }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: 'The most to return. Default: 100.' })),
  },
  { additionalProperties: false },
);
export type LogQuery = Type.Static<typeof LogQuery>;

export const LogLine = Type.Object(
  {
    sequence: Type.Integer({ description: 'Increases by one for each line; restarts when the platform starts.' }),
    time: Time('When it was written.'),
    level: oneOf(['info', 'error', 'system'], {
      description: 'Standard output, standard error, or a line of the platform itself.',
    }),
    version: Type.Integer({ description: 'The version that wrote it.' }),
    message: Type.String({ description: 'The line.' }),
  },
  { $id: 'EdgeFunctionLogLine', additionalProperties: false },
);
export type LogLine = Type.Static<typeof LogLine>;

export const EXAMPLE_FUNCTION: ListedFunction = {
  id: 7,
  name: 'hello',
  status: 'deployed',
  message: 'version 1 is deployed',
  problems: [],
  version: 1,
  deployed_version: 1,
  verify_jwt: true,
  url: 'http://localhost:4000/p/my-shop-k3v9x2ab/functions/v1/hello',
  created_at: '2026-01-05T09:00:00Z',
};
export const EXAMPLE_CODE = 'Deno.serve(() => new Response("hello"));';
