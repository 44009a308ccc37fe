/**
 * OpenID provider and GitHub for tests, over HTTP, which sign in the person that the test sets. Like real providers,
 * they check client, redirect URL, single use of codes, and PKCE.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';

export interface Person {
  sub: string;
  email?: string;
  email_verified?: boolean;
  name?: string;
}

export interface Provider {
  issuer: string;
  settings: Record<string, string>;
  /** Person at the browser. */
  person: Person;
  /** Follows auth's redirect to the provider. Returns the provider's redirect back. */
  visit(authorizationUrl: string): Promise<string>;
  idToken(claims: JWTPayload, options?: { issuer?: string; audience?: string; expires?: number }): Promise<string>;
  close(): Promise<void>;
}

const CLIENT = { id: 'the-app', secret: 'provider-canary-77aa' };

interface Code {
  redirectUri: string;
  nonce: string | null;
  challenge: string | null;
  person: Person;
}

export async function startProvider(): Promise<Provider> {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const codes = new Map<string, Code>();
  const tokens = new Map<string, Person>();
  let person: Person = { sub: '1' };
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const idToken: Provider['idToken'] = (claims, { issuer: by = issuer, audience = CLIENT.id, expires = 300 } = {}) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuer(by)
      .setAudience(audience)
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1000) + expires)
      .sign(privateKey);

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const url = new URL(incoming.url as string, issuer);
    const json = (value: unknown, status = 200) => {
      outgoing.writeHead(status, { 'content-type': 'application/json' });
      outgoing.end(JSON.stringify(value));
    };
    const bearer = tokens.get(String(incoming.headers.authorization).replace('Bearer ', ''));
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
      case '/other/.well-known/openid-configuration':
        return json({
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          userinfo_endpoint: `${issuer}/userinfo`,
          jwks_uri: `${issuer}/jwks`,
        });
      case '/jwks':
        return json({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }] });
      case '/authorize':
      case '/login/oauth/authorize':
        return authorize(url.searchParams, outgoing);
      case '/token':
      case '/login/oauth/access_token': {
        const granted = await exchange(new URLSearchParams(await bodyOf(incoming)));
        return granted ? json(granted) : json({ error: 'invalid_grant' }, 400);
      }
      case '/userinfo':
        return bearer ? json(bearer) : json({}, 401);
      case '/api/v3/user':
        return bearer ? json({ id: Number(bearer.sub), login: 'octo', name: bearer.name ?? null }) : json({}, 401);
      case '/api/v3/user/emails':
        return json([
          { email: 'other@example.com', primary: false, verified: true },
          { email: bearer?.email, primary: true, verified: bearer?.email_verified === true },
        ]);
      default:
        return json({}, 404);
    }
  }

  function authorize(query: URLSearchParams, outgoing: ServerResponse): void {
    const redirectUri = query.get('redirect_uri') as string;
    const code = randomUUID();
    const [nonce, challenge] = [query.get('nonce'), query.get('code_challenge')];
    if (query.get('client_id') !== CLIENT.id) return void outgoing.writeHead(400).end();
    codes.set(code, { redirectUri, nonce, challenge, person });
    const back = new URL(redirectUri);
    back.searchParams.set('code', code);
    back.searchParams.set('state', query.get('state') as string);
    outgoing.writeHead(302, { location: back.href }).end();
  }

  async function exchange(form: URLSearchParams) {
    const code = form.get('code') ?? '';
    const known = codes.get(code);
    codes.delete(code);
    if (!known || form.get('client_secret') !== CLIENT.secret || form.get('redirect_uri') !== known.redirectUri) {
      return undefined;
    }
    const verifier = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    if (known.challenge !== null && known.challenge !== verifier) return undefined;
    const token = randomUUID();
    tokens.set(token, known.person);
    const claims = { ...known.person, ...(known.nonce ? { nonce: known.nonce } : {}) };
    return { access_token: token, refresh_token: `refresh-${token}`, id_token: await idToken(claims) };
  }

  return {
    issuer,
    settings: {
      GOTRUE_EXTERNAL_COMPANY_ENABLED: 'true',
      GOTRUE_EXTERNAL_COMPANY_CLIENT_ID: CLIENT.id,
      GOTRUE_EXTERNAL_COMPANY_SECRET: CLIENT.secret,
      GOTRUE_EXTERNAL_COMPANY_URL: issuer,
      GOTRUE_EXTERNAL_GITHUB_ENABLED: 'true',
      GOTRUE_EXTERNAL_GITHUB_CLIENT_ID: CLIENT.id,
      GOTRUE_EXTERNAL_GITHUB_SECRET: CLIENT.secret,
      GOTRUE_EXTERNAL_GITHUB_URL: issuer,
    },
    get person() {
      return person;
    },
    set person(next) {
      person = next;
    },
    visit: async (authorizationUrl) => {
      const answered = await fetch(authorizationUrl, { redirect: 'manual' });
      return answered.headers.get('location') as string;
    },
    idToken,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of incoming) text += chunk;
  return text;
}
