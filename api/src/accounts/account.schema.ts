import Type from 'typebox';
import { Line, Nullable, oneOf, Time } from '../http/schema.js';
import { User } from './user.entity.js';

const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';

export const Email = Type.String({
  maxLength: 254,
  pattern: `^ *${ATOM}(?:\\.${ATOM})*@${LABEL}(?:\\.${LABEL})* *$`,
  description: 'An e-mail address; case and spaces around it do not matter.',
  examples: ['ada@example.com'],
});

export const NewPassword = Type.String({
  minLength: 8,
  maxLength: 1024,
  description: 'At least 8 characters.',
  examples: ['correct horse battery'],
});

/** One that exists: a shorter one is wrong, not malformed. */
export const Password = Type.String({
  maxLength: 1024,
  description: 'As registered.',
  examples: ['correct horse battery'],
});

export const Registration = Type.Object(
  {
    email: Email,
    password: NewPassword,
    full_name: Type.Optional(
      Line({ maxLength: 200, description: 'What to call the person.', examples: ['Ada Lovelace'] }),
    ),
    code: Type.Optional(
      Line({
        maxLength: 200,
        description:
          'The code of an invitation, or the setup code of the first administrator. Needed where registration is not open.',
      }),
    ),
  },
  { $id: 'Registration', additionalProperties: false },
);
export type Registration = Type.Static<typeof Registration>;

export const Login = Type.Object(
  {
    email: Email,
    password: Password,
  },
  { $id: 'Login', additionalProperties: false },
);
export type Login = Type.Static<typeof Login>;

export const Account = Type.Object(
  {
    id: Type.Integer({ description: 'The id of the account.' }),
    email: Type.String({ description: 'In lower case.' }),
    email_verified: Type.Boolean({ description: 'The holder of the account proved that the address is theirs.' }),
    full_name: Nullable(Type.String(), { description: 'What to call the person.' }),
    administrator: Type.Boolean({ description: 'An administrator manages accounts and invitations.' }),
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

export const RegistrationState = Type.Object(
  {
    registration: oneOf(['open', 'invite', 'closed', 'domains'], {
      description:
        'Who may register without a code: everybody, nobody (invite, closed), or addresses of some mail domains.',
    }),
    setup_required: Type.Boolean({
      description: 'There is no administrator yet: register the first with the setup code of the installation.',
    }),
  },
  { $id: 'RegistrationState', additionalProperties: false },
);
export type RegistrationState = Type.Static<typeof RegistrationState>;

export const accountOf = ({ id, email, emailVerifiedAt, fullName, isAdministrator, createdAt }: User): Account => ({
  id,
  email,
  email_verified: Boolean(emailVerifiedAt),
  full_name: fullName ?? null,
  administrator: isAdministrator,
  created_at: createdAt.toISOString(),
});

export const normalEmail = (email: string) => email.trim().toLowerCase();

const account: Account = {
  id: 1,
  email: 'ada@example.com',
  email_verified: false,
  full_name: 'Ada Lovelace',
  administrator: false,
  created_at: '2026-01-05T09:00:00.000Z',
};
export const EXAMPLES = {
  registrationState: { registration: 'invite', setup_required: false },
  invited: { email: 'grace@example.com', password: 'correct horse battery', code: 'invite_3kQ9…' },
  account,
  session: { token: 'eyJhbGciOiJIUzI1NiJ9.…', expires_at: '2026-01-06T09:00:00.000Z', user: account },
  registration: { email: 'ada@example.com', password: 'correct horse battery', full_name: 'Ada Lovelace' },
  login: { email: 'ada@example.com', password: 'correct horse battery' },
};
