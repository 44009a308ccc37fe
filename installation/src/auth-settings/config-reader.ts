/** Reads settings of a project's auth from texts, and records which settings were read and which are invalid. */
import type { Reader } from './values.js';

export interface ConfigProblem {
  key: string;
  message: string;
}

export interface Setting {
  /** Name of the setting: `GOTRUE_SITE_URL`. */
  key: string;
  type: 'boolean' | 'integer' | 'string';
  isSecret: boolean;
  /** The value that applies; undefined: the setting is absent, empty or invalid. */
  value: boolean | number | string | undefined;
}

const PREFIX = 'GOTRUE_';

/** Reads the settings of one project, and records which were read and which are invalid. */
export class ConfigReader {
  readonly problems: ConfigProblem[] = [];
  readonly #known = new Map<string, Setting>();

  constructor(private readonly values: Readonly<Record<string, string>>) {}

  /** Returns the setting GOTRUE_<name>; `fallback` if it is absent, empty or invalid. */
  read<T>(name: string, fallback: T, reader: Reader<T>): T {
    const key = PREFIX + name;
    const { type = 'string', isSecret = false } = reader;
    const setting: Setting = { key, type, isSecret, value: undefined };
    this.#known.set(key, setting);
    const text = this.values[key];
    if (text === undefined || text === '') return fallback;
    try {
      // The environment of a pod cannot contain it.
      if (text.includes('\0')) throw new Error('it must not contain a NUL character');
      const value = reader(text);
      setting.value = type === 'string' ? text : (value as boolean | number);
      return value;
    } catch (error) {
      this.problems.push({ key, message: (error as Error).message });
      return fallback;
    }
  }

  optional<T>(name: string, reader: Reader<T>): T | undefined {
    return this.read<T | undefined>(name, undefined, reader);
  }

  /** Returns the parts of setting names between `prefix` and one of `suffixes`, in lower case. */
  namesBetween(prefix: string, suffixes: readonly string[]): string[] {
    const start = PREFIX + prefix;
    const names = Object.keys(this.values).flatMap((key) => {
      const suffix = suffixes.find((each) => key.endsWith(each) && key.length > start.length + each.length);
      return suffix !== undefined && key.startsWith(start) ? [key.slice(start.length, -suffix.length)] : [];
    });
    return [...new Set(names.map((name) => name.toLowerCase()))];
  }

  refuse(name: string, message: string): void {
    this.problems.push({ key: PREFIX + name, message });
  }

  /** Returns each setting that was read, whether or not it is set. */
  known(): Setting[] {
    return [...this.#known.values()];
  }

  unknown(): ConfigProblem[] {
    return Object.keys(this.values)
      .filter((key) => !this.#known.has(key))
      .map((key) => ({ key, message: 'there is no such setting here; docs/auth.md lists them' }));
  }
}
