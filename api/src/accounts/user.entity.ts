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
    createdAt: p.datetime().defaultRaw('now()'),
  },
});
export type User = InferEntity<typeof User>;
