/**
 * Manages a project's users through the admin routes of its auth service, which applies its own rules and hashes
 * passwords.
 */

import { Inject, Injectable } from '@nestjs/common';
import { type JsonBound, parseJsonInTurns, readBounded } from '@slipway/program';
import { Problem } from '../http/problem.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import type { User } from './tool-schemas.js';

export interface AuthAccess {
  ref: string;
  serviceRoleKey: string;
}

/** Error of the auth service, with a message for the caller. */
export class AuthRefusal extends Error {}

const DEADLINE_MS = 10_000;
/** Maximum bytes of a response: a user's metadata may have a megabyte, and a page has many users. */
const MAX_BYTES = 4 * 1024 * 1024;
const RESPONSE_BOUND: JsonBound = { bytes: MAX_BYTES, depth: 128, values: 400_000 };

@Injectable()
export class AuthUsers {
  constructor(@Inject(SETTINGS) private readonly settings: ApiSettings) {}

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
      throw new Problem('unavailable', 'The auth service of the project does not respond. Try again.', { cause });
    });
    const answer = (await jsonOf(response)) as T & { msg?: string; message?: string };
    if (response.ok) return answer;
    throw new AuthRefusal(answer.msg ?? answer.message ?? `the auth service answered ${response.status}`);
  }
}

const tooLarge = () => new AuthRefusal('The result is larger than 4 MiB. Ask for fewer users with per_page.');

async function jsonOf(response: Response): Promise<unknown> {
  const bytes = await readBounded(response.body ?? [], MAX_BYTES, tooLarge);
  try {
    return await parseJsonInTurns(bytes, RESPONSE_BOUND);
  } catch {
    return {};
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
