/** The account as the API shows it, and as decisions about rights use it. */
import Type from 'typebox';
import { Nullable, Time } from '../http/schema.js';
import type { User } from './user.entity.js';

export const Account = Type.Object(
  {
    id: Type.Integer({ description: 'The id of the account.' }),
    email: Type.String({ description: 'The e-mail address, in lower case.' }),
    email_verified: Type.Boolean({ description: 'The holder of the account proved that the address is theirs.' }),
    full_name: Nullable(Type.String(), { description: 'The name of the person.' }),
    administrator: Type.Boolean({ description: 'An administrator manages accounts and invitations.' }),
    created_at: Time('Time of the registration.'),
  },
  { $id: 'User', additionalProperties: false },
);
export type Account = Type.Static<typeof Account>;

export const accountOf = ({ id, email, emailVerifiedAt, fullName, isAdministrator, createdAt }: User): Account => ({
  id,
  email,
  email_verified: Boolean(emailVerifiedAt),
  full_name: fullName ?? null,
  administrator: isAdministrator,
  created_at: createdAt.toISOString(),
});
