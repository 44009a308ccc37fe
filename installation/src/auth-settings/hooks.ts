/** Targets of a project's hooks, from GOTRUE_HOOK_<NAME>_*: functions of its own database, or servers over HTTP. */
import type { ConfigReader } from './config-reader.js';
import { boolean, line, secret } from './values.js';

const HOOK_NAMES = [
  'custom_access_token',
  'send_email',
  'send_sms',
  'password_verification_attempt',
  'mfa_verification_attempt',
  'before_user_created',
] as const;
export type HookName = (typeof HOOK_NAMES)[number];

export type HookTarget =
  | { kind: 'postgres'; schema: string; function: string }
  /** Secrets that each sign the request. There are two while one is replaced. */
  | { kind: 'http'; url: string; secrets: Buffer[] };

export type HookTargets = { readonly [K in HookName]: HookTarget | undefined };

export function hookTargets(reader: ConfigReader): HookTargets {
  return Object.fromEntries(HOOK_NAMES.map((name) => [name, target(reader, name)])) as HookTargets;
}

function target(reader: ConfigReader, name: HookName): HookTarget | undefined {
  const key = `HOOK_${name.toUpperCase()}`;
  const enabled = reader.read(`${key}_ENABLED`, false, boolean);
  const uri = reader.optional(`${key}_URI`, parseUri);
  const secrets = reader.optional(`${key}_SECRETS`, secret(parseSecrets));
  if (!enabled) return undefined;
  if (uri === undefined) {
    reader.refuse(`${key}_URI`, 'the hook is enabled but has no address');
    return undefined;
  }
  if (uri.kind === 'postgres') return uri;
  if (secrets === undefined || secrets.length === 0) {
    reader.refuse(`${key}_SECRETS`, 'a hook over HTTP needs a secret: v1,whsec_<base64>');
    return undefined;
  }
  return { ...uri, secrets };
}

const NAME = /^[a-zA-Z_][a-zA-Z0-9_$-]{0,62}$/;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]', 'host.docker.internal']);

function parseUri(
  text: string,
): { kind: 'postgres'; schema: string; function: string } | { kind: 'http'; url: string } {
  const address = line(text);
  if (!URL.canParse(address)) throw new Error(`it must be ${FORMS}`);
  const url = new URL(address);
  if (url.protocol === 'pg-functions:') {
    const [schema = '', name = '', ...rest] = url.pathname.split('/').slice(1).map(decodeURIComponent);
    if (!NAME.test(schema) || !NAME.test(name) || rest.length > 0) throw new Error(`it must be ${FORMS}`);
    return { kind: 'postgres', schema, function: name };
  }
  const plainAllowed = url.protocol === 'http:' && LOOPBACK.has(url.hostname);
  if (url.protocol !== 'https:' && !plainAllowed) throw new Error(`it must be ${FORMS}`);
  if (url.username || url.password) throw new Error('it must not hold a password');
  return { kind: 'http', url: address };
}

const FORMS = 'pg-functions://postgres/<schema>/<function>, or https://… (http:// only to this machine)';

const SECRET = /^v1,whsec_([A-Za-z0-9+/]+={0,2})$/;
const MIN_SECRET_BYTES = 24;

function parseSecrets(text: string): Buffer[] {
  return text.split('|').map((secret) => {
    const bytes = Buffer.from(SECRET.exec(secret.trim())?.[1] ?? '', 'base64');
    if (bytes.length < MIN_SECRET_BYTES) {
      throw new Error(`each secret must be v1,whsec_ and the base64 of ${MIN_SECRET_BYTES} bytes or more`);
    }
    return bytes;
  });
}
