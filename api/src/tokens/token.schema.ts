import Type from 'typebox';
import { Id, Line, Nullable, oneOf, Time } from '../http/schema.js';
import { ALL_SCOPES } from '../http/scopes.js';
import type { Token } from './token.entity.js';

const ScopeName = oneOf(ALL_SCOPES, { description: 'A scope of the token.' });

export const NewToken = Type.Object(
  {
    name: Type.Optional(Line({ maxLength: 100, description: 'The purpose of the token.', examples: ['ci'] })),
    scopes: Type.Optional(
      Type.Array(ScopeName, {
        minItems: 1,
        maxItems: 50,
        description:
          'Scopes of the token. Default: those of the caller, without the scopes admin:read and admin:write.',
        examples: [['projects:read', 'database:query']],
      }),
    ),
    project_ids: Type.Optional(
      Type.Array(Id('The id of a project.'), {
        minItems: 1,
        maxItems: 100,
        description: 'The only projects that the token may see; every other is a 404. Default: those of the caller.',
        examples: [[1]],
      }),
    ),
    expires_in: Type.Optional(
      Type.Integer({
        minimum: 60,
        maximum: 315_360_000,
        description: 'Seconds until the token expires. Default: never.',
        examples: [7_776_000],
      }),
    ),
  },
  { $id: 'NewToken', additionalProperties: false },
);
export type NewToken = Type.Static<typeof NewToken>;

const described = {
  id: Id('The id of the token.'),
  name: Type.String({ description: 'The purpose of the token.' }),
  scopes: Type.Array(ScopeName, { description: 'Scopes of the token.' }),
  project_ids: Nullable(Type.Array(Type.Integer()), { description: 'The only projects that it may see; null: all.' }),
  hint: Type.String({ description: 'The first characters of the value, to recognise it.' }),
  created_at: Time('When it was created.'),
  last_used_at: Nullable(Time('When it was last used.'), {
    description: 'Time of the last use, to the minute; null: never.',
  }),
  expires_at: Nullable(Time('Time of expiry.'), { description: 'Time of expiry; null: never.' }),
};

export const ListedToken = Type.Object(described, { $id: 'Token', additionalProperties: false });
export type ListedToken = Type.Static<typeof ListedToken>;

export const CreatedToken = Type.Object(
  { ...described, token: Type.String({ description: 'The value. It is shown only here.' }) },
  { $id: 'CreatedToken', additionalProperties: false },
);
export type CreatedToken = Type.Static<typeof CreatedToken>;

export const TokenId = Type.Object({ id: Id('The id of the token.') });

export const listed = (token: Token): ListedToken => ({
  id: token.id,
  name: token.name,
  scopes: token.scopes,
  project_ids: token.projectIds ?? null,
  hint: token.hint,
  created_at: token.createdAt.toISOString(),
  last_used_at: token.lastUsedAt?.toISOString() ?? null,
  expires_at: token.expiresAt?.toISOString() ?? null,
});

const example: ListedToken = {
  id: 7,
  name: 'ci',
  scopes: ['projects:read', 'database:query'],
  project_ids: null,
  hint: 'pat_3kQ9',
  created_at: '2026-01-05T09:00:00.000Z',
  last_used_at: null,
  expires_at: null,
};
export const EXAMPLES = {
  list: [example],
  created: { ...example, token: 'pat_3kQ9…' },
  body: { name: 'ci', scopes: ['projects:read', 'database:query'] },
};
