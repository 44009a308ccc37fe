/** The kinds of settings that REST reads and changes. Each has its definition where the data plane reads it too. */
import { readRestSettings } from '@slipway/installation';
import { type ConfigProblem, readAuthSettings, type Setting } from '@slipway/installation/auth-settings.js';

export type Texts = Readonly<Record<string, string>>;

export interface ConfigKind {
  /** Returns all settings, and the unknown and invalid ones of `texts`. */
  read(texts?: Texts): { settings: Setting[]; problems: ConfigProblem[] };
  /** Returns the key of a member. For a name that no member can have, such as one in upper case, no setting has it. */
  keyOf(member: string): string;
  /** Returns the member of a key; a name that no member can have stays. */
  memberOf(key: string): string;
  /** Page that lists the settings. */
  page: string;
  /** Limits of one setting and of all names and values together in bytes, and of the number of settings. */
  limits: { setting: number; all: number; count: number };
}

const MEMBER = /^[a-z][a-z0-9_]{0,199}$/;
const AUTH_PREFIX = 'GOTRUE_';

export const AUTH: ConfigKind = {
  read: readAuthSettings,
  keyOf: (member) => (MEMBER.test(member) ? AUTH_PREFIX + member.toUpperCase() : ''),
  memberOf: (key) => (/^GOTRUE_[A-Z0-9_]+$/.test(key) ? key.slice(AUTH_PREFIX.length).toLowerCase() : key),
  page: 'docs/auth.md',
  // The templates of mails are the largest. The Kubernetes API stores them, on one machine in memory.
  limits: { setting: 64 * 1024, all: 256 * 1024, count: 400 },
};

export const REST: ConfigKind = {
  read: readRestSettings,
  keyOf: (member) => (MEMBER.test(member) ? member : ''),
  memberOf: (key) => key,
  page: 'docs/api.md',
  // Each new session of the database reads them.
  limits: { setting: 4 * 1024, all: 32 * 1024, count: 100 },
};
