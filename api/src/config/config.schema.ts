/**
 * Schemas of a project's settings. The members derive from the same definition that the data plane obeys. A provider's
 * settings of auth are members too, but a provider may have any name, so `config-change.ts` checks them.
 */
import type { Setting } from '@slipway/installation/auth-settings.js';
import Type, { type TObject, type TSchema } from 'typebox';
import { Email } from '../accounts/account.schema.js';
import { Nullable } from '../http/schema.js';
import { AUTH, type ConfigKind, REST } from './config-kinds.js';

const TYPES = { boolean: Type.Boolean, integer: Type.Integer, string: Type.String };
const OF_PROVIDERS = Type.Union([Type.Boolean(), Type.String(), Type.Null()], {
  description: 'external_<name>_… are the settings of a provider.',
});

type Form = {
  $id: string;
  additionalProperties: TSchema | false;
};

const membersOf = ({ read, memberOf }: ConfigKind, schemaOf: (setting: Setting) => TSchema) =>
  Object.fromEntries(read().settings.map((setting) => [memberOf(setting.key), schemaOf(setting)]));

const shown = ({ key, type, isSecret }: Setting) =>
  isSecret
    ? Nullable(Type.Literal(true), { description: `${key}, a secret: true if it is set, else null.` })
    : Nullable(TYPES[type](), {
        description: `${key}; null if it is not set or not valid, so that the default applies.`,
      });

const configOf = (kind: ConfigKind, form: Form): TObject =>
  Type.Object(
    {
      version: Type.String({ description: 'The version of the settings, for PATCH. It changes with every change.' }),
      problems: Type.Array(
        Type.Object({
          field: Type.String({ description: 'The setting.' }),
          message: Type.String({ description: 'Its problem, without its value.' }),
        }),
        { description: 'Settings that another client wrote and that are not known or not valid, at most 100.' },
      ),
      ...membersOf(kind, shown),
    },
    form,
  );

const changeOf = (kind: ConfigKind, form: Form): TObject =>
  Type.Object(
    {
      version: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 100,
          description: 'The version that was read. If it is no longer the current one, the response is 409.',
        }),
      ),
      ...membersOf(kind, ({ key, type, isSecret }) =>
        Type.Optional(
          Nullable(TYPES[type](), {
            description: `${key}${isSecret ? ', which is never shown' : ''}; null removes it.`,
          }),
        ),
      ),
    },
    { ...form, minProperties: 1 },
  );

export interface Config {
  version: string;
  problems: { field: string; message: string }[];
  [member: string]: unknown;
}
export interface ConfigChange {
  version?: string;
  [member: string]: boolean | number | string | null | undefined;
}

export const AuthConfig = configOf(AUTH, { $id: 'AuthConfig', additionalProperties: OF_PROVIDERS });
export const AuthConfigChange = changeOf(AUTH, { $id: 'AuthConfigChange', additionalProperties: OF_PROVIDERS });
export const RestConfig = configOf(REST, { $id: 'RestConfig', additionalProperties: false });
export const RestConfigChange = changeOf(REST, { $id: 'RestConfigChange', additionalProperties: false });

export const TestMail = Type.Object(
  { to: Email },
  { $id: 'TestMail', additionalProperties: false, description: 'The recipient of the mail.' },
);
export type TestMail = Type.Static<typeof TestMail>;

export const SentTestMail = Type.Object(
  { ok: Type.Literal(true), to: Type.String({ description: 'The recipient.' }) },
  { $id: 'SentTestMail' },
);
export type SentTestMail = Type.Static<typeof SentTestMail>;
