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

/** Address to listen at: `host:port`, or the path of a Unix socket. */
export const LISTEN_FORM: SettingForm = {
  pattern: /^(\/.+|[^/]*:\d{1,5})$/,
  like: '127.0.0.1:4000 or the path of a Unix socket',
};

export const METRICS_FORM: SettingForm = { pattern: /^[^/]+:\d{1,5}$/, like: '0.0.0.0:9090' };
