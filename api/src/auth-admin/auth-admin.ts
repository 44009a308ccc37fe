/**
 * The admin routes of a project's auth service, for the API itself. In: the key of its service_role. Out: the service's
 * responses, which are bounded in time and size.
 */
import { Inject, Injectable } from '@nestjs/common';
import { type JsonBound, parseJsonInTurns, readBounded } from '@slipway/program';
import { Problem } from '../http/problem.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';

export interface AuthAccess {
  ref: string;
  serviceRoleKey: string;
}

export interface AuthRequest {
  method: string;
  /** The path behind `/auth/v1/admin`. */
  path: string;
  body?: object | undefined;
  /** Default: 10 seconds. */
  deadlineMs?: number;
}

/** Error of the auth service, with a message for the caller. */
export class AuthRefusal extends Error {
  constructor(
    message: string,
    readonly status?: number,
    /** The service's `error_code`. */
    readonly code?: string,
  ) {
    super(message);
  }
}

const DEADLINE_MS = 10_000;
/** Maximum bytes of a response: a user's metadata may have a megabyte, and a page has many users. */
const MAX_BYTES = 4 * 1024 * 1024;
const RESPONSE_BOUND: JsonBound = { bytes: MAX_BYTES, depth: 128, values: 400_000 };

@Injectable()
export class AuthAdmin {
  constructor(@Inject(SETTINGS) private readonly settings: ApiSettings) {}

  /** Errors: AuthRefusal, or the problem `unavailable`. */
  async request<T>({ ref, serviceRoleKey }: AuthAccess, { method, path, body, deadlineMs }: AuthRequest): Promise<T> {
    const url = `${this.settings.dataplaneUrl}/p/${ref}/auth/v1/admin${path}`;
    const headers = {
      apikey: serviceRoleKey,
      authorization: `Bearer ${serviceRoleKey}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    };
    const signal = AbortSignal.timeout(deadlineMs ?? DEADLINE_MS);
    const response = await fetch(url, {
      method,
      headers,
      signal,
      ...(body ? { body: JSON.stringify(body) } : {}),
    }).catch((cause: unknown) => {
      throw new Problem('unavailable', 'The auth service of the project does not respond. Try again.', { cause });
    });
    const answer = (await jsonOf(response)) as T & { msg?: string; message?: string; error_code?: string };
    if (response.ok) return answer;
    const message = answer.msg ?? answer.message ?? `the auth service answered ${response.status}`;
    throw new AuthRefusal(message, response.status, answer.error_code);
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
