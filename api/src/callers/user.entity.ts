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
    /** When an administrator disabled the account, which then can neither log in nor use its tokens; null: enabled. */
    disabledAt: p.datetime().nullable(),
    /** Null here and in the next two columns: the installation's default for new accounts. */
    allowedPlans: p.array().$type<string[]>().nullable(),
    allowedTypes: p.array().$type<string[]>().nullable(),
    maxProjects: p.integer().nullable(),
    maxMachines: p.integer().nullable(),
    createdAt: p.datetime().defaultRaw('now()'),
    emailSince: p.datetime().defaultRaw('now()'),
    emailVerifiedAt: p.datetime().nullable(),
    /** User tokens of earlier releases, which name no session, are rejected if they were issued before this time. */
    unnamedSessionsEndedAt: p.datetime().nullable(),
  },
});
export type User = InferEntity<typeof User>;
