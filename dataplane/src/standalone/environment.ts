/**
 * Variables of upstream, read once at start. In: the environment. Out: values, or an error that names the variable and
 * its form, never its value, because many are secrets. Used by the settings of both programs.
 */
import { readFileSync } from 'node:fs';

export class Environment {
  readonly #read = new Set<string>();

  constructor(private readonly values: Readonly<Record<string, string | undefined>>) {}

  /** Returns the value of the first of these names that has one. */
  optional(...names: string[]): string | undefined {
    for (const name of names) this.#read.add(name);
    return names.map((name) => this.values[name]).find((value) => value !== undefined && value !== '');
  }

  required(example: string, ...names: string[]): string {
    const value = this.optional(...names);
    if (value === undefined) throw new Error(`${names.join(' or ')} is not set. Set a value such as ${example}`);
    return value;
  }

  /** Returns a value that may be in a file, named `@<path>`, as in PostgREST. */
  optionalOrFile(name: string): string | undefined {
    const value = this.optional(name);
    if (!value?.startsWith('@')) return value;
    try {
      return readFileSync(value.slice(1), 'utf8').trim();
    } catch (error) {
      throw new Error(`${name} names a file that can not be read (${(error as NodeJS.ErrnoException).code})`);
    }
  }

  port(fallback: number, ...names: string[]): number {
    const value = this.optional(...names);
    if (value === undefined) return fallback;
    if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535)
      throw new Error(`${names.join(' or ')} must be a port number`);
    return Number(value);
  }

  boolean(fallback: boolean, name: string): boolean {
    const value = this.optional(name)?.toLowerCase();
    if (value === undefined) return fallback;
    if (['true', 't', 'yes', 'on', '1'].includes(value)) return true;
    if (['false', 'f', 'no', 'off', '0'].includes(value)) return false;
    throw new Error(`${name} must be true or false`);
  }

  /** Returns a URL of the service, without a trailing slash. */
  url(example: string, value: string, ...names: string[]): string {
    const url = URL.canParse(value) ? new URL(value) : undefined;
    if (url === undefined || !/^https?:$/.test(url.protocol)) {
      throw new Error(`${names.join(' or ')} must be an absolute URL such as ${example}`);
    }
    return value.replace(/\/+$/, '');
  }

  /** Returns the variables with this prefix that were not read. */
  others(prefix: string): Record<string, string> {
    const entries = Object.entries(this.values) as [string, string][];
    return Object.fromEntries(
      entries.filter(([name, value]) => name.startsWith(prefix) && value && !this.#read.has(name)),
    );
  }
}
