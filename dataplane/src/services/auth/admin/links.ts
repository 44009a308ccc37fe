/** Routes that create a sign-in link for another user: POST /invite mails it, POST /admin/generate_link returns it. */
import { randomBytes, randomUUID } from 'node:crypto';
import { type Body, emailMember, object, readJson, text } from '../body.js';
import { type Answer, type Context, ok, requireAdmin, wantedRedirect } from '../context.js';
import { badRequest, emailExists, notFound, validationFailed } from '../errors.js';
import { confirmationUrl, requireMail } from '../mail/send.js';
import { mailCode } from '../messages.js';
import { checkStrength } from '../policy/password-rules.js';
import { allowedRedirect } from '../policy/redirect.js';
import { byAddress, type FoundUser, findUser } from '../users/find-user.js';
import { addressMetadata, insertUser, ordinaryUser } from '../users/new-user.js';
import { keepToken, newToken, type TokenType } from '../users/one-time-token.js';
import { hashPassword } from '../users/passwords.js';
import { readUser, setUserMetadata } from '../users/user-changes.js';

export async function invite(context: Context): Promise<Answer> {
  requireAdmin(context.request);
  const body = await readJson(context.request);
  const email = requiredEmail(body);
  requireMail(context);
  const id = await invited(context, email, object(body, 'data'));
  const user = await readUser(context.pool, id);
  await mailCode(context, user, 'invite', {
    challenge: undefined,
    redirectTo: wantedRedirect(context),
    waiting: true,
  });
  return ok(await readUser(context.pool, id));
}

function requiredEmail(body: Body): string {
  const email = emailMember(body);
  if (!email) throw validationFailed('Unable to validate email address: invalid format');
  return email;
}

async function invited(context: Context, email: string, data: Record<string, unknown> | undefined): Promise<string> {
  const known = await findUser(context.pool, byAddress({ email }));
  if (known?.emailConfirmed) throw emailExists();
  if (known) {
    await context.pool.batch([
      {
        text: 'update auth.users set invited_at = now(), updated_at = now() where id = $1::uuid',
        values: [known.user.id],
      },
      ...(data ? [setUserMetadata(known.user.id, data)] : []),
    ]);
    return known.user.id;
  }
  return make(context, email, data, { invited: true });
}

async function make(
  { pool }: Context,
  email: string,
  data: Record<string, unknown> | undefined,
  more: { invited?: boolean; passwordHash?: string },
): Promise<string> {
  const id = randomUUID();
  const userMetadata = more.invited ? { ...addressMetadata({ id, email }), ...data } : (data ?? {});
  await pool.batch(insertUser(ordinaryUser(id, { email, userMetadata, ...more })));
  return id;
}

const KEPT_AS: Readonly<Record<string, TokenType>> = {
  signup: 'confirmation_token',
  invite: 'confirmation_token',
  recovery: 'recovery_token',
  magiclink: 'recovery_token',
  email_change_current: 'email_change_token_current',
  email_change_new: 'email_change_token_new',
};

export async function generateLink(context: Context): Promise<Answer> {
  const { request, config, pool } = context;
  requireAdmin(request);
  const body = await readJson(request);
  const type = text(body, 'type') ?? '';
  const kept = Object.hasOwn(KEPT_AS, type) ? KEPT_AS[type] : undefined;
  if (kept === undefined) {
    throw badRequest('validation_failed', `Invalid email action link type requested: ${JSON.stringify(type)}`);
  }
  const email = requiredEmail(body);
  const known = await findUser(pool, byAddress({ email }));
  const { userId, verifies } = await subject(context, body, { type, email, known });
  const address = kept === 'email_change_token_new' ? await beginEmailChange(context, body, userId) : email;
  if (kept === 'email_change_token_current') await beginEmailChange(context, body, userId);
  const token = newToken(request.tenant, address, config.mail.otpLength);
  await pool.batch(keepToken(userId, kept, token.hash, address));
  const wanted = text(body, 'redirect_to') ?? wantedRedirect(context);
  const redirectTo = allowedRedirect(wanted, config, request.tenant.url);
  const verification = verifies.startsWith('email_change') ? 'email_change' : verifies;
  return ok({
    ...(await readUser(pool, userId)),
    action_link: confirmationUrl(context, verification, token.hash, redirectTo),
    email_otp: token.code,
    hashed_token: token.hash,
    verification_type: verifies,
    redirect_to: redirectTo,
  });
}

interface Wanted {
  type: string;
  email: string;
  known: FoundUser | undefined;
}

/** Returns the user of the link: an existing one, or one that is created for it. */
async function subject(context: Context, body: Body, { type, email, known }: Wanted) {
  const data = object(body, 'data');
  if (type === 'invite') return { userId: await invited(context, email, data), verifies: 'invite' };
  if (type === 'signup') return { userId: await signedUp(context, body, email, known), verifies: 'signup' };
  // A magic link for an unknown address is a sign-up.
  if (known === undefined && type === 'magiclink') {
    const passwordHash = await hashPassword(context.request.tenant.ref, randomBytes(24).toString('base64url'));
    return { userId: await make(context, email, data, { passwordHash }), verifies: 'magiclink' };
  }
  if (known === undefined) throw notFound('user_not_found', 'User with this email not found');
  return { userId: known.user.id, verifies: type };
}

async function signedUp(context: Context, body: Body, email: string, known: FoundUser | undefined): Promise<string> {
  const password = text(body, 'password');
  if (!password) throw validationFailed('Signup requires a valid password');
  checkStrength(password, context.config.passwords);
  if (known?.emailConfirmed) throw emailExists();
  const passwordHash = await hashPassword(context.request.tenant.ref, password);
  const data = object(body, 'data');
  if (known === undefined) return make(context, email, data, { passwordHash });
  await context.pool.batch([
    {
      text: 'update auth.users set encrypted_password = $2, updated_at = now() where id = $1::uuid',
      values: [known.user.id, passwordHash],
    },
    ...(data ? [setUserMetadata(known.user.id, data)] : []),
  ]);
  return known.user.id;
}

async function beginEmailChange({ pool }: Context, body: Body, userId: string): Promise<string> {
  const newEmail = emailMember(body, 'new_email');
  if (!newEmail) throw validationFailed('new_email is required for a link of this type');
  const other = await findUser(pool, byAddress({ email: newEmail }));
  if (other && other.user.id !== userId) throw emailExists();
  await pool.batch([
    {
      text: `
update auth.users set updated_at = now(), email_change = $2::text,
  email_change_confirm_status = case when email_change = $2::text then email_change_confirm_status else 0 end
where id = $1::uuid`,
      values: [userId, newEmail],
    },
  ]);
  return newEmail;
}
