import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import { User } from '../callers/user.entity.js';
import type { Scope } from '../http/scopes.js';

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
