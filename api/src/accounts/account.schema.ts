import Type from 'typebox';
import { Account } from '../callers/account.js';
import { Line, oneOf, Time } from '../http/schema.js';

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

/** The password at a login. It has no minimum length: a short password gets the same error as any wrong one. */
export const Password = Type.String({
  maxLength: 1024,
  description: 'The registered address.',
  examples: ['correct horse battery'],
});

export const Registration = Type.Object(
  {
    email: Email,
    password: NewPassword,
    full_name: Type.Optional(
      Line({ maxLength: 200, description: 'The name of the person.', examples: ['Ada Lovelace'] }),
    ),
    code: Type.Optional(
      Line({
        maxLength: 200,
        description:
          'The code of an invitation, or the setup code of the first administrator. ' +
          'Needed where registration is not open.',
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
    code: Type.Optional(
      Line({ maxLength: 200, description: 'The code that was mailed, where the response was `code_required`.' }),
    ),
  },
  { $id: 'Login', additionalProperties: false },
);
export type Login = Type.Static<typeof Login>;

export const LostProject = Type.Object(
  {
    ref: Type.String({ description: 'The ref of the project, the name of its Project resource.' }),
    cause: oneOf(['assigned', 'spec'], {
      description:
        'assigned: an administrator gave the project to another account; spec: its spec.owner names another address.',
    }),
    lost_at: Time('When it happened.'),
  },
  { $id: 'LostProject', additionalProperties: false },
);
export type LostProject = Type.Static<typeof LostProject>;

export const Me = Type.Object(
  {
    ...Account.properties,
    lost_projects: Type.Array(LostProject, {
      description:
        'Projects that the account owned and another owns now: of the last 90 days, the latest first, at most 50.',
    }),
  },
  { $id: 'Me', additionalProperties: false },
);
export type Me = Type.Static<typeof Me>;

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
        'People who may register without a code: everybody, nobody (invite, closed), ' +
        'or addresses of some mail domains.',
    }),
    setup_required: Type.Boolean({
      description: 'There is no administrator yet: register the first with the setup code of the installation.',
    }),
  },
  { $id: 'RegistrationState', additionalProperties: false },
);
export type RegistrationState = Type.Static<typeof RegistrationState>;

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
  me: { ...account, lost_projects: [] },
  session: { token: 'eyJhbGciOiJIUzI1NiJ9.…', expires_at: '2026-01-06T09:00:00.000Z', user: account },
  registration: { email: 'ada@example.com', password: 'correct horse battery', full_name: 'Ada Lovelace' },
  login: { email: 'ada@example.com', password: 'correct horse battery' },
};
