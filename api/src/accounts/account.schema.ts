import Type from 'typebox';
import { Line, Nullable, Time } from '../http/schema.js';
import { User } from './user.entity.js';

const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';

const Email = Type.String({
  maxLength: 254,
  pattern: `^ *${ATOM}(?:\\.${ATOM})*@${LABEL}(?:\\.${LABEL})* *$`,
  description: 'An e-mail address; case and spaces around it do not matter.',
  examples: ['ada@example.com'],
});

export const Registration = Type.Object(
  {
    email: Email,
    password: Type.String({
      minLength: 8,
      maxLength: 1024,
      description: 'At least 8 characters.',
      examples: ['correct horse battery'],
    }),
    full_name: Type.Optional(
      Line({ maxLength: 200, description: 'What to call the person.', examples: ['Ada Lovelace'] }),
    ),
  },
  { $id: 'Registration', additionalProperties: false },
);
export type Registration = Type.Static<typeof Registration>;

export const Login = Type.Object(
  {
    email: Email,
    password: Type.String({ maxLength: 1024, description: 'As registered.', examples: ['correct horse battery'] }),
  },
  { $id: 'Login', additionalProperties: false },
);
export type Login = Type.Static<typeof Login>;

export const Account = Type.Object(
  {
    id: Type.Integer({ description: 'The id of the account.' }),
    email: Type.String({ description: 'In lower case.' }),
    full_name: Nullable(Type.String(), { description: 'What to call the person.' }),
    created_at: Time('When it was registered.'),
  },
  { $id: 'User', additionalProperties: false },
);
export type Account = Type.Static<typeof Account>;

export const Session = Type.Object(
  {
    token: Type.String({ description: 'The user token, a JWT: send it as `Authorization: Bearer <token>`.' }),
    expires_at: Time('When the token ends: 24 hours after it was issued.'),
    user: Account,
  },
  { $id: 'Session', additionalProperties: false },
);
export type Session = Type.Static<typeof Session>;

export const accountOf = ({ id, email, fullName, createdAt }: User): Account => ({
  id,
  email,
  full_name: fullName ?? null,
  created_at: createdAt.toISOString(),
});

export const normalEmail = (email: string) => email.trim().toLowerCase();

const account: Account = {
  id: 1,
  email: 'ada@example.com',
  full_name: 'Ada Lovelace',
  created_at: '2026-01-05T09:00:00.000Z',
};
export const EXAMPLES = {
  account,
  session: { token: 'eyJhbGciOiJIUzI1NiJ9.…', expires_at: '2026-01-06T09:00:00.000Z', user: account },
  registration: { email: 'ada@example.com', password: 'correct horse battery', full_name: 'Ada Lovelace' },
  login: { email: 'ada@example.com', password: 'correct horse battery' },
};
