/**
 * Decides changes of the settings of a project's auth. Pure. In: the content of the Secret `auth-config` and a request.
 * Out: the texts to write, or an error that names each invalid member; and the settings as REST shows them.
 */
import { readAuthSettings, type Setting } from '@slipway/installation/auth-settings.js';
import { type FieldError, invalidFields, Problem } from '../http/problem.js';
import { type AuthConfig, type AuthConfigChange, MAX_SETTING_BYTES, memberOf } from './auth-config.schema.js';

export interface StoredConfig {
  content: Readonly<Record<string, string>>;
  version: string;
}

/** Maximum bytes of the names and values of a project's settings together. The Kubernetes API stores them. */
const MAX_BYTES = 256 * 1024;
const MAX_SETTINGS = 400;
const MOST_PROBLEMS = 100;
const UNKNOWN = 'is not a known setting; docs/auth.md lists them';

type Value = boolean | number | string | null;

export function authConfigOf({ content, version }: StoredConfig): AuthConfig {
  const { settings, problems } = readAuthSettings(content);
  return {
    version,
    problems: problems.slice(0, MOST_PROBLEMS).map(({ key, message }) => ({ field: memberOf(key), message })),
    ...Object.fromEntries(settings.map((setting) => [memberOf(setting.key), shownValue(setting)])),
  };
}

const shownValue = ({ value, isSecret }: Setting) => (value === undefined ? null : isSecret || value);

/**
 * Returns the changed keys of the Secret; null removes a key. Throws a Problem if any part of the change is invalid.
 */
export function changedTexts(
  { version, ...members }: AuthConfigChange,
  current: StoredConfig,
): Record<string, string | null> {
  if (version !== undefined && version !== current.version) throw outdated();
  const given = Object.entries(members as Record<string, Value>);
  // Types first, so that a value of another type is never converted to text.
  const known = knownSettings(given, current.content);
  refuse(given.flatMap(([name, value]) => formError(name, value, known.get(keyOf(name)))));
  const texts = given.map(([name, value]) => [keyOf(name), value === null || value === '' ? null : String(value)]);
  const changes = Object.fromEntries(texts) as Record<string, string | null>;
  const content = changed(current.content, changes);
  refuse(newProblems(current.content, content, changes));
  refuseTooMuch(current.content, content);
  return changes;
}

const NAME = /^[a-z][a-z0-9_]{0,199}$/;
/** Returns a key that no setting has for a name that no member has, such as one in upper case. */
const keyOf = (name: string) => (NAME.test(name) ? `GOTRUE_${name.toUpperCase()}` : '');

/** A provider's settings are known once one of them has a key, so the given names get one. */
function knownSettings(given: [string, Value][], content: StoredConfig['content']): ReadonlyMap<string, Setting> {
  const keys = Object.fromEntries(given.map(([name]) => [keyOf(name), '']));
  return new Map(readAuthSettings({ ...content, ...keys }).settings.map((setting) => [setting.key, setting]));
}

function formError(name: string, value: Value, setting: Setting | undefined): FieldError[] {
  const error = (message: string) => [{ field: name.slice(0, 100), message }];
  if (!setting) return error(UNKNOWN);
  if (value === null) return [];
  if (setting.type === 'string' ? typeof value !== 'string' : typeof value === 'string' || !isOf(setting.type, value))
    return error(`must be ${setting.type}`);
  if (typeof value !== 'string') return [];
  if (!value.isWellFormed()) return error('must not contain half of a surrogate pair');
  const bytes = Buffer.byteLength(value);
  return bytes > MAX_SETTING_BYTES ? error(`has ${bytes} bytes; the limit is ${MAX_SETTING_BYTES}`) : [];
}

const isOf = (type: 'boolean' | 'integer', value: boolean | number) =>
  type === 'boolean' ? typeof value === 'boolean' : Number.isSafeInteger(value);

function changed(content: StoredConfig['content'], changes: Record<string, string | null>): Record<string, string> {
  const entries = Object.entries({ ...content, ...changes });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
}

/** A setting that kubectl wrote and that was invalid before does not prevent a change of other settings. */
function newProblems(
  before: StoredConfig['content'],
  after: StoredConfig['content'],
  changes: Record<string, string | null>,
): FieldError[] {
  const known = new Set(readAuthSettings(before).problems.map(({ key, message }) => `${key} ${message}`));
  return readAuthSettings(after)
    .problems.filter(({ key, message }) => Object.hasOwn(changes, key) || !known.has(`${key} ${message}`))
    .map(({ key, message }) => ({ field: memberOf(key), message }));
}

/** Lets a change make settings smaller that are too large, because kubectl wrote them. */
function refuseTooMuch(before: StoredConfig['content'], after: StoredConfig['content']): void {
  const bytes = bytesOf(after);
  if (bytes > MAX_BYTES && bytes > bytesOf(before))
    throw tooMuch(`The settings have ${bytes} bytes together; the limit is ${MAX_BYTES}.`);
  const count = Object.keys(after).length;
  if (count > MAX_SETTINGS && count > Object.keys(before).length)
    throw tooMuch(`The project would have ${count} settings; the limit is ${MAX_SETTINGS}.`);
}

const bytesOf = (content: StoredConfig['content']) =>
  Object.entries(content).reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0);

const tooMuch = (detail: string) => new Problem('validation_failed', detail, { errors: [] });

function refuse(errors: FieldError[]): void {
  if (errors.length > 0) throw invalidFields(errors.slice(0, MOST_PROBLEMS));
}

const outdated = () =>
  new Problem('conflict', 'The settings have changed since this version was read. Read them again, then repeat.', {
    errors: [{ field: 'version', message: 'is not the current version' }],
  });
