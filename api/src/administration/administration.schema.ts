import { DEFAULT_TYPE, PLANS, PROJECT_TYPES } from '@slipway/crds';
import Type from 'typebox';
import { Email } from '../accounts/account.schema.js';
import { Id, Line, MAX_ID, Nullable, oneOf, Time } from '../http/schema.js';

const Plans = Type.Array(oneOf(PLANS, { description: 'A plan.' }), {
  maxItems: PLANS.length,
  uniqueItems: true,
  description: 'Plans that the account may use; null: the default of the installation.',
  examples: [['free', 'pro']],
});
const Types = Type.Array(oneOf(PROJECT_TYPES, { description: 'A backend type.' }), {
  maxItems: PROJECT_TYPES.length,
  uniqueItems: true,
  description: 'Backend types that the account may use; null: the default of the installation.',
  examples: [[DEFAULT_TYPE]],
});
const MaxProjects = Type.Integer({
  minimum: 0,
  maximum: 1000,
  description: 'Projects that the account may have; null: the default of the installation.',
  examples: [10],
});

const MaxMachines = Type.Integer({
  minimum: 0,
  maximum: 1000,
  description: 'Projects with a machine of their own that the account may have; null: the default of the installation.',
  examples: [2],
});

export const AccountChange = Type.Object(
  {
    administrator: Type.Optional(Type.Boolean({ description: 'Whether the account is an administrator.' })),
    disabled: Type.Optional(
      Type.Boolean({
        description: 'A disabled account cannot log in, and its tokens are rejected. Its projects keep running.',
      }),
    ),
    allowed_plans: Type.Optional(Nullable(Plans)),
    allowed_types: Type.Optional(Nullable(Types)),
    max_projects: Type.Optional(Nullable(MaxProjects)),
    max_machines: Type.Optional(Nullable(MaxMachines)),
  },
  { $id: 'AccountChange', additionalProperties: false, minProperties: 1, description: 'at least one field' },
);
export type AccountChange = Type.Static<typeof AccountChange>;

export const AdministeredAccount = Type.Object(
  {
    id: Id('The id of the account.'),
    email: Type.String({ description: 'The e-mail address, in lower case.' }),
    full_name: Nullable(Type.String(), { description: 'The name of the person.' }),
    administrator: Type.Boolean({ description: 'Whether the account is an administrator.' }),
    disabled_at: Nullable(Time('Time of disabling.'), { description: 'Time of disabling; null: enabled.' }),
    allowed_plans: Nullable(Plans),
    allowed_types: Nullable(Types),
    max_projects: Nullable(MaxProjects),
    max_machines: Nullable(MaxMachines),
    projects: Type.Integer({ description: 'Number of projects, including those that are being deleted.' }),
    created_at: Time('Time of the registration.'),
  },
  { $id: 'AdministeredAccount', additionalProperties: false },
);
export type AdministeredAccount = Type.Static<typeof AdministeredAccount>;

export const AccountId = Type.Object({ id: Id('The id of the account.') });
export type AccountId = Type.Static<typeof AccountId>;
export const AccountQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, description: 'The most to return. Default: 100.', examples: [50] }),
    ),
    after: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_ID,
        description: 'Returns only accounts with a larger id. Send the last id of the previous page.',
      }),
    ),
    email: Type.Optional(Line({ maxLength: 254, description: 'Returns only the account with this address.' })),
  },
  { additionalProperties: false },
);
export type AccountQuery = Type.Static<typeof AccountQuery>;

const WEEK = 7 * 24 * 3600;
export const NewInvitation = Type.Object(
  {
    email: Type.Optional(Email),
    expires_in: Type.Optional(
      Type.Integer({
        minimum: 60,
        maximum: 4 * WEEK,
        description: 'Seconds until it expires. Default: 7 days.',
        examples: [WEEK],
      }),
    ),
  },
  { $id: 'NewInvitation', additionalProperties: false },
);
export type NewInvitation = Type.Static<typeof NewInvitation>;
export const INVITATION_SECONDS = WEEK;

const invitation = {
  id: Id('The id of the invitation.'),
  email: Nullable(Type.String(), { description: 'The only address that may use it; null: any address.' }),
  created_at: Time('Time of its creation.'),
  expires_at: Time('When it expires.'),
  used_at: Nullable(Time('Time of the registration with it.'), {
    description: 'Time of the registration with it; null: it was not used.',
  }),
};
export const Invitation = Type.Object(invitation, { $id: 'Invitation', additionalProperties: false });
export type Invitation = Type.Static<typeof Invitation>;
export const CreatedInvitation = Type.Object(
  { ...invitation, code: Type.String({ description: 'The `code` for registration. It is shown only here.' }) },
  { $id: 'CreatedInvitation', additionalProperties: false },
);
export type CreatedInvitation = Type.Static<typeof CreatedInvitation>;
export const InvitationId = Type.Object({ id: Id('The id of the invitation.') });

const account: AdministeredAccount = {
  id: 2,
  email: 'grace@example.com',
  full_name: 'Grace Hopper',
  administrator: false,
  disabled_at: null,
  allowed_plans: ['free', 'pro'],
  allowed_types: null,
  max_projects: 10,
  max_machines: null,
  projects: 1,
  created_at: '2026-01-05T09:00:00.000Z',
};
const open: Invitation = {
  id: 4,
  email: 'grace@example.com',
  created_at: '2026-01-05T09:00:00.000Z',
  expires_at: '2026-01-12T09:00:00.000Z',
  used_at: null,
};
export const EXAMPLES = {
  account,
  change: { allowed_plans: ['free', 'pro'], max_projects: 10 },
  disable: { disabled: true },
  invitation: open,
  created: { ...open, code: 'invite_3kQ9…' },
  invite: { email: 'grace@example.com', expires_in: 86_400 },
};
