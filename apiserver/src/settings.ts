/** The settings, read once from the environment. Each error names the variable and the fix. */

import {
  type Environment,
  fileSettingOf,
  listenOptions,
  logLevelOf,
  type SettingForm,
  settingOf,
} from '@slipway/program';
import type { TokenUser } from './http/authentication.js';
import type { EncryptionKeys } from './storage/encryption.js';

const DATABASE_URL: SettingForm = {
  pattern: /./,
  like: 'postgresql://user:password@/platform?host=/run/postgres&port=4002',
};
const ADDRESS: SettingForm = { pattern: /^\[?[^\]]+?\]?:\d{1,5}$/, like: '127.0.0.1:4001' };

export function readSettings(environment: Environment) {
  const json = (name: string): unknown => {
    try {
      return JSON.parse(fileSettingOf(environment, name));
    } catch (error) {
      // The parser's message may quote the file, which is secret.
      if (error instanceof SyntaxError) throw new Error(`${name}: the file is not JSON`);
      throw error;
    }
  };
  const level = logLevelOf(environment);
  return {
    listen: address(environment),
    databaseUrl: settingOf(environment, 'SLIPWAY_DATABASE_URL', DATABASE_URL),
    encryptionKeys: encryptionKeys(json('SLIPWAY_ENCRYPTION_KEYS')),
    tokens: tokens(json('SLIPWAY_TOKENS')),
    tls: { cert: fileSettingOf(environment, 'SLIPWAY_TLS_CERT'), key: fileSettingOf(environment, 'SLIPWAY_TLS_KEY') },
    level,
  };
}

function address(environment: Environment): { host: string; port: number } {
  return listenOptions(settingOf(environment, 'SLIPWAY_LISTEN', ADDRESS)) as { host: string; port: number };
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
      'SLIPWAY_TOKENS: the file must hold a list of ' +
        '{"token": "<16 characters or more>", "user": "<name>", "groups": []}',
    );
  }
  return value.map(({ token, user, groups }) => ({ token, user, groups: groups ?? [] }));
}
