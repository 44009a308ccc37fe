/**
 * Asks a project's hook. In: the hook's name and its input. Out: what it answered, an object; a hook that isn't set is
 * not asked.
 */
import type { Context } from '../context.js';
import { AuthError } from '../errors.js';
import { callFunction } from './database-function.js';
import { post } from './http.js';
import type { HookName } from './target.js';

export type HookOutput = Record<string, unknown>;

export async function invokeHook(context: Context, name: HookName, input: object): Promise<HookOutput | undefined> {
  const target = context.config.hooks[name];
  if (target === undefined) return undefined;
  const output =
    target.kind === 'postgres'
      ? await callFunction(context.pool, target, input)
      : await post(context.outbound, target, input);
  refuseIfAsked(output);
  return output;
}

/** `{"error": {"http_code", "message"}}` is the hook's own way to say no. */
function refuseIfAsked({ error }: HookOutput): void {
  if (typeof error !== 'object' || error === null || Object.keys(error).length === 0) return;
  const { http_code: status, message } = error as { http_code?: unknown; message?: unknown };
  const valid = typeof status === 'number' && Number.isInteger(status) && status >= 400 && status < 600;
  const chosen = valid ? status : 500;
  const text = typeof message === 'string' && message !== '' ? message : 'The hook refused';
  throw new AuthError(chosen, chosen === 500 ? 'unexpected_failure' : 'unknown', text.slice(0, 1000));
}

/** `{"decision": "reject"}` of the hooks that watch attempts. */
export const rejected = (output: HookOutput | undefined): boolean => output?.decision === 'reject';
export const messageOf = (output: HookOutput | undefined, fallback: string): string =>
  typeof output?.message === 'string' && output.message !== '' ? output.message.slice(0, 1000) : fallback;
