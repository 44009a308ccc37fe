import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

export const User = defineEntity({
  name: 'User',
  tableName: 'users',
  schema: 'platform',
  properties: {
    id: p.integer().primary(),
    email: p.text().unique(),
    fullName: p.text().nullable(),
    passwordHash: p.text().hidden(),
    isAdministrator: p.boolean().default(false),
    /** The account can neither log in nor use its tokens since then. */
    disabledAt: p.datetime().nullable(),
    /** Null: what the installation gives to new accounts; the same for the two below. */
    allowedPlans: p.array().$type<string[]>().nullable(),
    allowedTypes: p.array().$type<string[]>().nullable(),
    maxProjects: p.integer().nullable(),
    createdAt: p.datetime().defaultRaw('now()'),
    emailSince: p.datetime().defaultRaw('now()'),
    emailVerifiedAt: p.datetime().nullable(),
    /** User tokens without a session, of earlier releases, are refused since then. */
    unnamedSessionsEndedAt: p.datetime().nullable(),
  },
});
export type User = InferEntity<typeof User>;
