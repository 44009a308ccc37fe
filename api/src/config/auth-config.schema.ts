/**
 * Schemas of the settings of a project's auth. The members derive from the same definition that the data plane obeys. A
 * provider's settings are members too, but a provider may have any name, so `auth-config.ts` checks them.
 */
import { readAuthSettings, type Setting } from '@slipway/installation/auth-settings.js';
import Type, { type TSchema } from 'typebox';
import { Nullable } from '../http/schema.js';

/** Maximum bytes of one setting. The templates of mails are the largest. */
export const MAX_SETTING_BYTES = 64 * 1024;

/** Returns the name of a setting's member; a name that no member can have stays. */
export const memberOf = (key: string) => (/^GOTRUE_[A-Z0-9_]+$/.test(key) ? key.slice(7).toLowerCase() : key);

const SETTINGS = readAuthSettings().settings;
const TYPES = { boolean: Type.Boolean, integer: Type.Integer, string: Type.String };
const members = (schemaOf: (setting: Setting) => TSchema) =>
  Object.fromEntries(SETTINGS.map((setting) => [memberOf(setting.key), schemaOf(setting)]));

const Version = (description: string) => Type.String({ minLength: 1, maxLength: 100, description });
const OF_PROVIDERS = Type.Union([Type.Boolean(), Type.String(), Type.Null()], {
  description: 'external_<name>_… are the settings of a provider.',
});

const shown = ({ key, type, isSecret }: Setting) =>
  isSecret
    ? Nullable(Type.Literal(true), { description: `${key}, a secret: true if it is set, else null.` })
    : Nullable(TYPES[type](), {
        description: `${key}; null if it is not set or not valid, so that the default applies.`,
      });

export const AuthConfig = Type.Object(
  {
    version: Type.String({ description: 'The version of the settings, for PATCH. It changes with every change.' }),
    problems: Type.Array(
      Type.Object({
        field: Type.String({ description: 'The setting.' }),
        message: Type.String({ description: 'Its problem, without its value.' }),
      }),
      { description: 'Settings that kubectl wrote and that are not known or not valid, at most 100.' },
    ),
    ...members(shown),
  },
  { $id: 'AuthConfig', additionalProperties: OF_PROVIDERS },
);
export interface AuthConfig {
  version: string;
  problems: { field: string; message: string }[];
  [member: string]: unknown;
}

export const AuthConfigChange = Type.Object(
  {
    version: Type.Optional(
      Version('The version that was read. If it is no longer the current one, the response is 409.'),
    ),
    ...members(({ key, type, isSecret }) =>
      Type.Optional(
        Nullable(TYPES[type](), { description: `${key}${isSecret ? ', which is never shown' : ''}; null removes it.` }),
      ),
    ),
  },
  { $id: 'AuthConfigChange', minProperties: 1, additionalProperties: OF_PROVIDERS },
);
export interface AuthConfigChange {
  version?: string;
  [member: string]: boolean | number | string | null | undefined;
}
