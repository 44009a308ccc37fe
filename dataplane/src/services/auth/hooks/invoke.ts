/**
 * Calls a project's hook. In: the hook's name and its input. Out: the hook's response, an object. A hook that is not
 * configured is not called.
 */

import type { HookName } from '@slipway/installation/auth-settings.js';
import type { Context } from '../context.js';
import { AuthError } from '../errors.js';
import { callFunction } from './database-function.js';
import { post } from './http.js';

export type HookOutput = Record<string, unknown>;

export async function invokeHook(context: Context, name: HookName, input: object): Promise<HookOutput | undefined> {
  const target = context.config.hooks[name];
  if (target === undefined) return undefined;
  const output =
    target.kind === 'postgres'
      ? await callFunction(context.pool, target, input)
      : await post(context.outbound, target, input);
  throwHookError(output);
  return output;
}

/** Format of an error from the hook: `{"error": {"http_code", "message"}}`. */
function throwHookError({ error }: HookOutput): void {
  if (typeof error !== 'object' || error === null || Object.keys(error).length === 0) return;
  const { http_code: status, message } = error as { http_code?: unknown; message?: unknown };
  const valid = typeof status === 'number' && Number.isInteger(status) && status >= 400 && status < 600;
  const chosen = valid ? status : 500;
  const text = typeof message === 'string' && message !== '' ? message : 'The hook refused';
  throw new AuthError(chosen, chosen === 500 ? 'unexpected_failure' : 'unknown', text.slice(0, 1000));
}

/** Format of a rejection by a hook that watches attempts: `{"decision": "reject"}`. */
export const rejected = (output: HookOutput | undefined): boolean => output?.decision === 'reject';
export const messageOf = (output: HookOutput | undefined, fallback: string): string =>
  typeof output?.message === 'string' && output.message !== '' ? output.message.slice(0, 1000) : fallback;
