/** Grant by an OpenID provider's id_token, which the app obtained itself. */
import { createHash } from 'node:crypto';
import { flag, readJson, text } from '../body.js';
import { type Answer, type Context, ok } from '../context.js';
import { AuthError, badRequest, validationFailed } from '../errors.js';
import { personOfClaims, verifyIdToken } from '../oauth/oidc.js';
import { linkPerson, signInPerson } from '../oauth/person.js';
import { requireManualLinking } from '../routes/identities.js';
import { startSessionOrRefuse } from '../sessions/sign-in.js';
import { requireSecondFactor, signedInUser } from '../sessions/signed-in-user.js';

export async function idTokenGrant(context: Context): Promise<Answer> {
  context.limits.byAddress('attempts', context);
  const body = await readJson(context.request);
  const [token, name] = [text(body, 'id_token'), text(body, 'provider')];
  if (!token) throw validationFailed('id_token required');
  if (!name) throw validationFailed('provider or client_id and issuer required');
  // The project's settings decide which issuers are trusted, never the caller.
  const provider = context.config.providers.get(name);
  if (provider?.kind !== 'oidc') {
    throw badRequest('provider_disabled', `Provider (${JSON.stringify(name)}) is not enabled for id_tokens`);
  }
  const claims = await verifyIdToken(context.outbound, provider, token);
  if (!provider.skipNonceCheck) checkNonce(text(body, 'nonce'), claims.nonce);
  const person = personOfClaims(provider, claims);
  if (flag(body, 'link_identity')) {
    requireManualLinking(context);
    const signedIn = await signedInUser(context);
    requireSecondFactor(signedIn, 403, 'AAL2 session is required to link an identity when MFA is enabled.');
    await linkPerson(context, signedIn.user.id, provider, person);
    return ok(await startSessionOrRefuse(context, { userId: signedIn.user.id, method: 'oauth' }));
  }
  const userId = await signInPerson(context, provider, person);
  return ok(await startSessionOrRefuse(context, { userId, method: 'oauth' }));
}

function checkNonce(passed: string | undefined, inToken: unknown): void {
  if (Boolean(passed) !== Boolean(inToken)) {
    throw badRequest('validation_failed', 'Passed nonce and nonce in id_token should either both exist or not.');
  }
  if (!passed) return;
  if (createHash('sha256').update(passed).digest('hex') !== inToken) {
    throw new AuthError(400, 'validation_failed', 'Nonces mismatch');
  }
}
