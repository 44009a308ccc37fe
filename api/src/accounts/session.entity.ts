import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import { User } from '../callers/user.entity.js';

export const Session = defineEntity({
  name: 'Session',
  tableName: 'sessions',
  schema: 'platform',
  properties: {
    id: p.integer().primary(),
    user: () => p.manyToOne(User),
    /** Network of the login: an IPv4 address, or an IPv6 network of 48 bits. */
    network: p.text(),
    userAgent: p.text(),
    createdAt: p.datetime().defaultRaw('now()'),
    expiresAt: p.datetime(),
  },
});
export type Session = InferEntity<typeof Session>;
