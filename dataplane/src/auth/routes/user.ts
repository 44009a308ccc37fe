/** GET and PUT /user: the user who calls, by their access token. */
import { type Answer, type Context, object, readJson, text, validEmail } from '../context.js';
import { badRequest, emailExists, forbidden, unprocessable } from '../errors.js';
import { takenAddress } from '../new-user.js';
import { checkStrength, hashPassword, verifyPassword } from '../passwords.js';
import { signedInUser } from '../signed-in-user.js';
import { presentable } from '../user.js';
import { readUser, setEmail, setPassword, setUserMetadata } from '../user-changes.js';

export async function getUser(context: Context): Promise<Answer> {
  const { user } = await signedInUser(context);
  return { status: 200, body: presentable(user) };
}

export async function updateUser(context: Context): Promise<Answer> {
  const { user, sessionId, passwordHash } = await signedInUser(context);
  const body = await readJson(context.request);
  const { email, password, data } = parameters(body);
  if (password !== undefined && (await verifyPassword(password, passwordHash))) {
    throw unprocessable('same_password', 'New password should be different from the old password.');
  }
  const newHash = password === undefined ? undefined : await hashPassword(password);
  const statements = [
    ...(newHash === undefined ? [] : setPassword(user.id, newHash, sessionId)),
    ...(data === undefined ? [] : [setUserMetadata(user.id, data)]),
    ...(email === undefined || email === user.email ? [] : setEmail(user.id, email)),
  ];
  return { status: 200, body: await readUser(context.pool, user.id, statements, takenEmail) };
}

function parameters(body: Record<string, unknown>) {
  const email = text(body, 'email') || undefined;
  const password = text(body, 'password');
  if (text(body, 'phone')) throw badRequest('phone_provider_disabled', 'Phone numbers cannot be confirmed here');
  if (body.app_metadata) throw forbidden('not_admin', 'Updating app_metadata requires admin privileges');
  if (password !== undefined) checkStrength(password);
  return { email: email && validEmail(email), password, data: object(body, 'data') };
}

function takenEmail(error: unknown): never {
  throw takenAddress(error) ? emailExists() : error;
}
