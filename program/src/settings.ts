/** Reads a program's settings from its environment. Each error names the variable, and an example of its value. */
import { readFileSync } from 'node:fs';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface SettingForm {
  pattern: RegExp;
  /** Example of a valid value. */
  like: string;
}

/** Returns a required variable. An empty one counts as missing. */
export function settingOf(environment: Environment, name: string, form: SettingForm): string {
  const value = optionalSettingOf(environment, name, form);
  if (value === undefined) throw new Error(`${name} is not set. Set it to a value such as ${form.like}`);
  return value;
}

export function optionalSettingOf(environment: Environment, name: string, form: SettingForm): string | undefined {
  const value = environment[name];
  if (value === undefined || value === '' || form.pattern.test(value)) return value || undefined;
  // The value may contain a password, so it is not quoted.
  throw new Error(`${name} is not valid. Set it to a value such as ${form.like}`);
}

/** Returns the content of the file that a variable names, without surrounding white space. */
export function fileSettingOf(environment: Environment, name: string): string {
  const path = settingOf(environment, name, { pattern: /./, like: '/run/secrets/a-file' });
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new Error(`${name}: ${path} can not be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Minimum characters of a bearer token between programs. */
const TOKEN_CHARACTERS = 32;

/**
 * Returns a function that reads the bearer token from the file that a variable names. It reads the file at each call,
 * because a mounted Secret may be replaced. Throws at once if the file has no valid token.
 */
export function tokenSettingOf(environment: Environment, name: string): () => string {
  const read = () => {
    const token = fileSettingOf(environment, name);
    if (token.length < TOKEN_CHARACTERS) {
      throw new Error(`${name}: the file must hold at least ${TOKEN_CHARACTERS} characters`);
    }
    return token;
  };
  read();
  return read;
}

/** Throws if both variables are set, where one replaces the other. */
export function expectOneOf(environment: Environment, first: string, second: string): void {
  if (environment[first] && environment[second]) {
    throw new Error(`${first} and ${second} are both set. Set only one of them`);
  }
}

/** Address to listen at: `host:port`, or the path of a Unix socket. */
export const LISTEN_FORM: SettingForm = {
  pattern: /^(\/.+|[^/]*:\d{1,5})$/,
  like: '127.0.0.1:4000 or the path of a Unix socket',
};

export const METRICS_FORM: SettingForm = { pattern: /^[^/]+:\d{1,5}$/, like: '0.0.0.0:9090' };
