import Type from 'typebox';
import { Id, Time } from '../http/schema.js';
import { Email, NewPassword, Password } from './account.schema.js';

export const PasswordChange = Type.Object(
  { current_password: Password, password: NewPassword },
  { $id: 'PasswordChange', additionalProperties: false },
);
export type PasswordChange = Type.Static<typeof PasswordChange>;

export const Forgotten = Type.Object({ email: Email }, { $id: 'ForgottenPassword', additionalProperties: false });
export type Forgotten = Type.Static<typeof Forgotten>;

const LinkToken = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'The token of the link that was mailed.',
  examples: ['3kQ9…'],
});

export const PasswordReset = Type.Object(
  { token: LinkToken, password: NewPassword },
  { $id: 'PasswordReset', additionalProperties: false },
);
export const Verification = Type.Object(
  { token: LinkToken, password: Password },
  { $id: 'Verification', additionalProperties: false },
);
export interface LinkUse {
  token: string;
  password: string;
}

export const AddressChange = Type.Object(
  { email: Email, password: Password },
  { $id: 'AddressChange', additionalProperties: false },
);
export type AddressChange = Type.Static<typeof AddressChange>;

export const AddressChanged = Type.Object(
  { changed: Type.Boolean({ description: 'False: the address changes once its holder uses the mailed link.' }) },
  { $id: 'AddressChanged', additionalProperties: false },
);
export type AddressChanged = Type.Static<typeof AddressChanged>;

export const Deletion = Type.Object({ password: Password }, { $id: 'AccountDeletion', additionalProperties: false });
export type Deletion = Type.Static<typeof Deletion>;

export const ListedSession = Type.Object(
  {
    id: Id('The id of the session.'),
    network: Type.String({ description: 'Network of the login: an IPv4 address, or an IPv6 network of 48 bits.' }),
    user_agent: Type.String({ description: 'The User-Agent of the client.' }),
    created_at: Time('When it began.'),
    expires_at: Time('When it ends.'),
    current: Type.Boolean({ description: 'True if the request was sent with the token of this session.' }),
  },
  { $id: 'ListedSession', additionalProperties: false },
);
export type ListedSession = Type.Static<typeof ListedSession>;

export const SessionId = Type.Object({ id: Id('The id of the session.') });

const PASSWORD = 'correct horse battery';
export const EXAMPLES = {
  passwordChange: { current_password: PASSWORD, password: 'another long password' },
  forgotten: { email: 'ada@example.com' },
  reset: { token: '3kQ9…', password: 'another long password' },
  verification: { token: '3kQ9…', password: PASSWORD },
  addressChange: { email: 'countess@example.com', password: PASSWORD },
  deletion: { password: PASSWORD },
  sessions: [
    {
      id: 12,
      network: '203.0.113.7',
      user_agent: 'curl/8.9.1',
      created_at: '2026-01-05T09:00:00.000Z',
      expires_at: '2026-01-06T09:00:00.000Z',
      current: true,
    },
  ],
};
