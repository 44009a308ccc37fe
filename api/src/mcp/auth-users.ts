/**
 * The users of a project, by the admin routes of its own auth service: they keep its rules, and what it hashes with.
 */
import { Inject, Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import type { User } from './tool-schemas.js';

export interface AuthAccess {
  ref: string;
  serviceRoleKey: string;
}

/** The auth service's error, for the caller. */
export class AuthRefusal extends Error {}

const DEADLINE_MS = 10_000;
/** A user's metadata may be a megabyte, and a page has many users. */
const MAX_BYTES = 4 * 1024 * 1024;

@Injectable()
export class AuthUsers {
  constructor(@Inject(SETTINGS) private readonly settings: ApiSettings) {}

  async list(access: AuthAccess, page: number, perPage: number): Promise<User[]> {
    const { users } = await this.ask<{ users: User[] }>(access, 'GET', `?page=${page}&per_page=${perPage}`);
    return users.map(shown);
  }

  async create(access: AuthAccess, wish: object): Promise<User> {
    return shown(await this.ask<User>(access, 'POST', '', wish));
  }

  async remove(access: AuthAccess, id: string): Promise<void> {
    await this.ask(access, 'DELETE', `/${encodeURIComponent(id)}`);
  }

  private async ask<T>({ ref, serviceRoleKey }: AuthAccess, method: string, rest: string, body?: object): Promise<T> {
    const url = `${this.settings.dataplaneUrl}/p/${ref}/auth/v1/admin/users${rest}`;
    const headers = {
      apikey: serviceRoleKey,
      authorization: `Bearer ${serviceRoleKey}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    };
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const response = await fetch(url, {
      method,
      headers,
      signal,
      ...(body ? { body: JSON.stringify(body) } : {}),
    }).catch((cause: unknown) => {
      throw new Problem('unavailable', 'The auth service of the project does not answer. Try again.', { cause });
    });
    const said = (await jsonOf(response)) as T & { msg?: string; message?: string };
    if (response.ok) return said;
    throw new AuthRefusal(said.msg ?? said.message ?? `the auth service answered ${response.status}`);
  }
}

async function jsonOf(response: Response): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new AuthRefusal('The result is larger than 4 MiB. Ask for fewer users with per_page.');
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    return {};
  }
}

/** Nothing of a user that signs in for them. */
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
