/**
 * Manages a project's users through the admin routes of its auth service, which applies its own rules and hashes
 * passwords.
 */
import { Injectable } from '@nestjs/common';
import { type AuthAccess, AuthAdmin } from '../auth-admin/auth-admin.js';
import type { User } from './tool-schemas.js';

@Injectable()
export class AuthUsers {
  constructor(private readonly auth: AuthAdmin) {}

  async list(access: AuthAccess, page: number, perPage: number): Promise<User[]> {
    const { users } = await this.ask<{ users: User[] }>(access, 'GET', `?page=${page}&per_page=${perPage}`);
    return users.map(shown);
  }

  async create(access: AuthAccess, fields: object): Promise<User> {
    return shown(await this.ask<User>(access, 'POST', '', fields));
  }

  async remove(access: AuthAccess, id: string): Promise<void> {
    await this.ask(access, 'DELETE', `/${encodeURIComponent(id)}`);
  }

  private ask<T>(access: AuthAccess, method: string, rest: string, body?: object): Promise<T> {
    return this.auth.request<T>(access, { method, path: `/users${rest}`, body });
  }
}

/** Returns the members of a user that a client may see: no password, token or code. */
const shown = (user: Partial<User>): User => ({
  id: user.id ?? '',
  email: user.email ?? null,
  phone: user.phone ?? null,
  created_at: user.created_at ?? null,
  last_sign_in_at: user.last_sign_in_at ?? null,
  email_confirmed_at: user.email_confirmed_at ?? null,
  user_metadata: user.user_metadata ?? {},
  app_metadata: user.app_metadata ?? {},
});
