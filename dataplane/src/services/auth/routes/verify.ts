/**
 * Routes /verify: use up a code or link, which proves the address or change for which it was sent. GET is the link of a
 * mail, and redirects to the app. POST is the app's request with the code, or with the hash of the link.
 */
import { type Body, emailMember, phoneMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok, queryOf, redirect } from '../context.js';
import { AuthError, badRequest, forbidden, otpExpired, validationFailed } from '../errors.js';
import { allowedRedirect, withParameters } from '../policy/redirect.js';
import { issueCode } from '../sessions/flow-state.js';
import type { Grant } from '../sessions/grant.js';
import { startSessionOrRefuse } from '../sessions/sign-in.js';
import { inTransaction, type Work } from '../transaction.js';
import { refuseTakenAddress } from '../users/new-user.js';
import { hashesOf, PKCE_PREFIX, type TokenType, type UsedToken, useToken } from '../users/one-time-token.js';
import { prove } from '../users/prove-address.js';

const KEPT_AS: Readonly<Record<string, readonly TokenType[]>> = {
  signup: ['confirmation_token'],
  invite: ['confirmation_token'],
  recovery: ['recovery_token'],
  magiclink: ['recovery_token'],
  email: ['confirmation_token', 'recovery_token'],
  email_change: ['email_change_token_current', 'email_change_token_new'],
  sms: ['confirmation_token'],
  phone_change: ['phone_change_token'],
};
const PHONE_TYPES = new Set(['sms', 'phone_change']);

/** Authentication methods of sessions from a link with PKCE, by the method of their flow. */
const FLOW_METHODS = ['magiclink', 'email/signup', 'recovery', 'invite', 'email_change'];

const ONE_OF_TWO = 'Confirmation link accepted. Please proceed to confirm link sent to the other email';

export async function verifyByApp(context: Context): Promise<Answer> {
  context.limits.byAddress('verify', context);
  const body = await readJson(context.request);
  const proof = proofOf(context, body);
  const proven = await inTransaction(context.pool, (work) => use(context, work, proof));
  if (proven === 'half') return ok({ msg: ONE_OF_TWO, code: '200' });
  return ok(await startSessionOrRefuse(context, { userId: proven.userId, method: 'otp' }));
}

export async function verifyByLink(context: Context): Promise<Answer> {
  const query = queryOf(context);
  const token = query.get('token') ?? query.get('token_hash') ?? '';
  const type = query.get('type') ?? '';
  const pkce = token.startsWith(PKCE_PREFIX);
  // No mail of ours contains such a link, so the response is for its author, not for a browser.
  if (type === '') throw validationFailed('Verify requires a verification type');
  if (token === '') throw validationFailed('Verify requires a token or a token hash');
  let target = context.config.siteUrl;
  try {
    context.limits.byAddress('verify', context);
    target = allowedRedirect(query.get('redirect_to'), context.config, context.request.tenant.url);
    return redirect(await follow(context, { type, token, target, pkce }));
  } catch (error) {
    if (!(error instanceof AuthError)) throw error;
    return redirect(withError(target, error, pkce));
  }
}

interface Link {
  type: string;
  token: string;
  /** Address to redirect to. */
  target: string;
  pkce: boolean;
}

async function follow(context: Context, { type, token, target, pkce }: Link): Promise<string> {
  const proof: Proof = { type, types: typesOf(type), hashes: [token], phone: PHONE_TYPES.has(type) };
  const outcome = await inTransaction(context.pool, async (work) => {
    const proven = await use(context, work, proof);
    if (proven === 'half' || !pkce) return { proven, code: undefined };
    return { proven, code: await work.first<string>(issueCode(proven.userId, FLOW_METHODS)) };
  });
  const { proven, code } = outcome;
  if (proven === 'half') return withParameters(target, { message: ONE_OF_TWO }, pkce ? 'both' : 'fragment');
  if (pkce) {
    if (code === undefined) throw new AuthError(404, 'flow_state_not_found', 'No associated flow state found');
    return withParameters(target, { code }, 'query');
  }
  const granted = await startSessionOrRefuse(context, { userId: proven.userId, method: 'otp' });
  return withTokens(target, granted, { type });
}

export const withTokens = (target: string, granted: Grant, more: Record<string, string | undefined> = {}): string =>
  withParameters(
    target,
    {
      access_token: granted.access_token,
      expires_at: String(granted.expires_at),
      expires_in: String(granted.expires_in),
      provider_token: granted.provider_token,
      provider_refresh_token: granted.provider_refresh_token,
      refresh_token: granted.refresh_token,
      token_type: granted.token_type,
      ...more,
    },
    'fragment',
  );

export function withError(target: string, error: AuthError, inQueryToo: boolean): string {
  const kind =
    error.status >= 500
      ? 'server_error'
      : error.status === 401 || error.status === 403
        ? 'access_denied'
        : 'invalid_request';
  const description = error.code === 'otp_expired' ? 'Email link is invalid or has expired' : error.message;
  const parameters = { error: kind, error_code: error.code, error_description: description };
  return withParameters(target, parameters, inQueryToo ? 'both' : 'fragment');
}

interface Proof {
  type: string;
  types: readonly TokenType[];
  hashes: string[];
  phone: boolean;
}

const typesOf = (type: string): readonly TokenType[] => {
  const types = Object.hasOwn(KEPT_AS, type) ? KEPT_AS[type] : undefined;
  if (types === undefined) throw badRequest('validation_failed', 'Unsupported verification type');
  return types;
};

function proofOf(context: Context, body: Body): Proof {
  const type = text(body, 'type');
  if (!type) throw validationFailed('Verify requires a verification type');
  const types = typesOf(type);
  const hash = text(body, 'token_hash');
  const code = text(body, 'token')?.replaceAll('-', '');
  const [email, phone] = [emailMember(body), phoneMember(body)];
  if (hash) {
    if (email || phone || code) throw validationFailed('Only the token_hash and type should be provided');
    return { type, types, hashes: [hash], phone: PHONE_TYPES.has(type) };
  }
  if (!code) throw validationFailed('Verify requires a token or a token hash');
  if (Boolean(email) === Boolean(phone)) {
    throw validationFailed('Only an email address or phone number should be provided on verify');
  }
  const byPhone = phone !== undefined;
  if (byPhone !== PHONE_TYPES.has(type)) throw badRequest('validation_failed', 'Unsupported verification type');
  const address = (phone ?? email) as string;
  context.limits.codeGuess(context, address);
  const candidates = hashesOf(context.request.tenant, address, code);
  return { type, types, hashes: candidates.flatMap((hash) => [hash, PKCE_PREFIX + hash]), phone: byPhone };
}

async function use(context: Context, work: Work, { type, types, hashes, phone }: Proof) {
  const { mail, sms } = context.config;
  const used = await work.first<UsedToken>(useToken(hashes, types, phone ? sms.otpSeconds : mail.otpSeconds));
  // A code that went to a phone proves no e-mail address, and the other way round.
  if (used === undefined || used.address.includes('@') === phone) throw otpExpired();
  const proven = await prove(work, used, type, mail.secureEmailChange).catch(refuseTakenAddress);
  if (proven === 'banned') throw forbidden('user_banned', 'User is banned');
  return proven === 'half' ? proven : { userId: used.userId };
}
