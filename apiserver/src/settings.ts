/** The settings, read from the environment once. Each problem names its variable and what to do. */
import { readFileSync } from 'node:fs';
import type { TokenUser } from './http/authentication.js';
import type { EncryptionKeys } from './storage/encryption.js';

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

type Environment = Readonly<Record<string, string | undefined>>;

export function readSettings(environment: Environment) {
  const required = (name: string): string => {
    const value = environment[name];
    if (!value) throw new Error(`${name} is not set`);
    return value;
  };
  const file = (name: string): string => {
    const path = required(name);
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      throw new Error(`${name}: ${path} can't be read: ${(error as Error).message}`);
    }
  };
  const json = (name: string): unknown => {
    try {
      return JSON.parse(file(name));
    } catch (error) {
      // The parser's own words may quote the file, which is secret.
      if (error instanceof SyntaxError) throw new Error(`${name}: the file is not JSON`);
      throw error;
    }
  };
  const level = environment.SLIPWAY_LOG_LEVEL || 'info';
  if (!LEVELS.includes(level))
    throw new Error(`SLIPWAY_LOG_LEVEL is "${level}"; it must be one of ${LEVELS.join(', ')}`);
  return {
    listen: address(required('SLIPWAY_LISTEN')),
    databaseUrl: required('SLIPWAY_DATABASE_URL'),
    encryptionKeys: encryptionKeys(json('SLIPWAY_ENCRYPTION_KEYS')),
    tokens: tokens(json('SLIPWAY_TOKENS')),
    tls: { cert: file('SLIPWAY_TLS_CERT'), key: file('SLIPWAY_TLS_KEY') },
    level,
  };
}

function address(text: string): { host: string; port: number } {
  const [, host, port] = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(text) ?? [];
  if (!host || Number(port) > 65_535) throw new Error(`SLIPWAY_LISTEN is "${text}"; it must be host:port`);
  return { host, port: Number(port) };
}

function encryptionKeys(value: unknown): EncryptionKeys {
  const { current, keys } = (value ?? {}) as Partial<EncryptionKeys>;
  if (typeof current === 'string' && typeof keys === 'object' && keys !== null) return { current, keys };
  throw new Error(
    'SLIPWAY_ENCRYPTION_KEYS: the file must hold {"current": "<id>", "keys": {"<id>": "<32 bytes, base64>"}}',
  );
}

function tokens(value: unknown): TokenUser[] {
  const isToken = (entry: Partial<TokenUser> | null) =>
    typeof entry?.token === 'string' && entry.token.length >= 16 && typeof entry.user === 'string';
  if (!Array.isArray(value) || value.length === 0 || !value.every(isToken)) {
    throw new Error(
      'SLIPWAY_TOKENS: the file must hold a list of {"token": "<16 characters or more>", "user": "<name>", "groups": []}',
    );
  }
  return value.map(({ token, user, groups }) => ({ token, user, groups: groups ?? [] }));
}
