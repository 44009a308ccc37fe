/**
 * Decides changes of a project's settings. Pure. In: the kind of settings, the stored texts and a request. Out: the
 * texts to write, or an error that names each invalid member; and the settings as REST shows them.
 */
import { createHash } from 'node:crypto';
import type { Setting } from '@slipway/installation/auth-settings.js';
import { type FieldError, invalidFields, Problem } from '../http/problem.js';
import type { Config, ConfigChange } from './config.schema.js';
import type { ConfigKind, Texts } from './config-kinds.js';

export interface StoredConfig {
  content: Texts;
  version: string;
}

const MOST_PROBLEMS = 100;

type Value = boolean | number | string | null;

export function shownConfig({ read, memberOf }: ConfigKind, { content, version }: StoredConfig): Config {
  const { settings, problems } = read(content);
  return {
    version,
    problems: problems.slice(0, MOST_PROBLEMS).map(({ key, message }) => ({ field: memberOf(key), message })),
    ...Object.fromEntries(settings.map((setting) => [memberOf(setting.key), shownValue(setting)])),
  };
}

const shownValue = ({ value, isSecret }: Setting) => (value === undefined ? null : isSecret || value);

/**
 * Returns the changed texts by key; null removes a key. Throws a Problem if any part of the change is invalid.
 */
export function changedTexts(
  kind: ConfigKind,
  { version, ...members }: ConfigChange,
  current: StoredConfig,
): Record<string, string | null> {
  if (version !== undefined && version !== current.version) throw outdated();
  const given = Object.entries(members as Record<string, Value>);
  // Types first, so that a value of another type is never converted to text.
  const known = knownSettings(kind, given, current.content);
  refuse(given.flatMap(([name, value]) => formError(kind, name, value, known.get(kind.keyOf(name)))));
  const texts = given.map(([name, value]) => [kind.keyOf(name), value === null || value === '' ? null : String(value)]);
  const changes = Object.fromEntries(texts) as Record<string, string | null>;
  const content = applied(current.content, changes);
  refuse(newProblems(kind, current.content, content, changes));
  refuseTooMuch(kind, current.content, content);
  return changes;
}

/** A provider's settings are known once one of them has a key, so the given names get one. */
function knownSettings(kind: ConfigKind, given: [string, Value][], content: Texts): ReadonlyMap<string, Setting> {
  const keys = Object.fromEntries(given.map(([name]) => [kind.keyOf(name), '']));
  return new Map(kind.read({ ...content, ...keys }).settings.map((setting) => [setting.key, setting]));
}

function formError(
  { limits, page }: ConfigKind,
  name: string,
  value: Value,
  setting: Setting | undefined,
): FieldError[] {
  const error = (message: string) => [{ field: name.slice(0, 100), message }];
  if (!setting) return error(`is not a known setting; ${page} lists them`);
  if (value === null) return [];
  if (setting.type === 'string' ? typeof value !== 'string' : typeof value === 'string' || !isOf(setting.type, value))
    return error(`must be ${setting.type}`);
  if (typeof value !== 'string') return [];
  if (!value.isWellFormed()) return error('must not contain half of a surrogate pair');
  if (value.includes('\0')) return error('must not contain a NUL character');
  const bytes = Buffer.byteLength(value);
  return bytes > limits.setting ? error(`has ${bytes} bytes; the limit is ${limits.setting}`) : [];
}

const isOf = (type: 'boolean' | 'integer', value: boolean | number) =>
  type === 'boolean' ? typeof value === 'boolean' : Number.isSafeInteger(value);

export function applied(content: Texts, changes: Record<string, string | null>): Record<string, string> {
  const entries = Object.entries({ ...content, ...changes });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
}

/** A setting that another client wrote and that was invalid before does not prevent a change of other settings. */
function newProblems(
  { read, memberOf }: ConfigKind,
  before: Texts,
  after: Texts,
  changes: Record<string, string | null>,
): FieldError[] {
  const known = new Set(read(before).problems.map(({ key, message }) => `${key} ${message}`));
  return read(after)
    .problems.filter(({ key, message }) => Object.hasOwn(changes, key) || !known.has(`${key} ${message}`))
    .map(({ key, message }) => ({ field: memberOf(key), message }));
}

/** Lets a change make settings smaller that are too large, because another client wrote them. */
function refuseTooMuch({ limits }: ConfigKind, before: Texts, after: Texts): void {
  const bytes = bytesOf(after);
  if (bytes > limits.all && bytes > bytesOf(before))
    throw tooMuch(`The settings have ${bytes} bytes together; the limit is ${limits.all}.`);
  const count = Object.keys(after).length;
  if (count > limits.count && count > Object.keys(before).length)
    throw tooMuch(`The project would have ${count} settings; the limit is ${limits.count}.`);
}

const bytesOf = (content: Texts) =>
  Object.entries(content).reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0);

const tooMuch = (detail: string) => new Problem('validation_failed', detail, { errors: [] });

function refuse(errors: FieldError[]): void {
  if (errors.length > 0) throw invalidFields(errors.slice(0, MOST_PROBLEMS));
}

/** Returns a version of texts that have none where they are stored. */
export const versionOf = (content: Texts) =>
  createHash('sha256')
    .update(JSON.stringify(Object.entries(content).sort(([a], [b]) => (a < b ? -1 : 1))))
    .digest('hex')
    .slice(0, 32);

const outdated = () =>
  new Problem('conflict', 'The settings have changed since this version was read. Read them again, then repeat.', {
    errors: [{ field: 'version', message: 'is not the current version' }],
  });
