import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { Scope } from '../access/scopes.js';
import { User } from '../accounts/user.entity.js';

export const Token = defineEntity({
  name: 'Token',
  tableName: 'tokens',
  schema: 'platform',
  properties: {
    id: p.integer().primary(),
    user: () => p.manyToOne(User),
    parentId: p.integer().nullable(),
    name: p.text(),
    hash: p.blob().hidden(),
    hint: p.text(),
    scopes: p.array().$type<Scope[]>(),
    projectIds: p.array().$type<number[]>().nullable(),
    createdAt: p.datetime().defaultRaw('now()'),
    lastUsedAt: p.datetime().nullable(),
    expiresAt: p.datetime().nullable(),
  },
});
export type Token = InferEntity<typeof Token>;
