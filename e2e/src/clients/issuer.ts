/** An OpenID provider on this machine that issues id_tokens for any user that the test names. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';

const AUDIENCE = 'the-app';

export interface Issuer {
  /** Settings of the auth service with this issuer as the provider `company`. */
  settings: Record<string, string>;
  idToken(claims: JWTPayload): Promise<string>;
  close(): void;
}

export async function startIssuer(): Promise<Issuer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' };
  const server = createServer((incoming, outgoing) => {
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        userinfo_endpoint: `${issuer}/userinfo`,
        jwks_uri: `${issuer}/jwks`,
      },
      '/jwks': { keys: [jwk] },
    };
    const document = documents[incoming.url as string];
    outgoing
      .writeHead(document ? 200 : 404, { 'content-type': 'application/json' })
      .end(JSON.stringify(document ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    settings: {
      GOTRUE_EXTERNAL_COMPANY_ENABLED: 'true',
      GOTRUE_EXTERNAL_COMPANY_CLIENT_ID: AUDIENCE,
      GOTRUE_EXTERNAL_COMPANY_SECRET: 'a secret of the app at the provider',
      GOTRUE_EXTERNAL_COMPANY_URL: issuer,
    },
    idToken: (claims) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setIssuer(issuer)
        .setAudience(AUDIENCE)
        .setIssuedAt()
        .setExpirationTime('5m')
        .sign(privateKey),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
