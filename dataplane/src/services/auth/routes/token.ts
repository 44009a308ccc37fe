/** Route POST /token: creates a session; each grant type has a file in `grants/`. */
import { type Answer, type Context, queryOf, type Route } from '../context.js';
import { badRequest } from '../errors.js';
import { idTokenGrant } from '../grants/id-token.js';
import { passwordGrant } from '../grants/password.js';
import { pkceGrant } from '../grants/pkce.js';
import { refreshGrant } from '../grants/refresh.js';
import { web3Grant } from './absent.js';

const GRANTS: Readonly<Record<string, Route>> = {
  refresh_token: refreshGrant,
  password: passwordGrant,
  pkce: pkceGrant,
  id_token: idTokenGrant,
  web3: () => Promise.reject(web3Grant()),
};

export async function token(context: Context): Promise<Answer> {
  const type = queryOf(context).get('grant_type') ?? '';
  const grant = Object.hasOwn(GRANTS, type) ? GRANTS[type] : undefined;
  if (grant === undefined) throw badRequest('invalid_credentials', 'unsupported_grant_type');
  return grant(context);
}
