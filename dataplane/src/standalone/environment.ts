/**
 * Upstream's variables, read once at start. In: the environment. Out: values, or an error that names the variable and
 * what it must be, never what it is: many hold secrets. Used by the settings of both programs.
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
    if (value === undefined) throw new Error(`${names.join(' or ')} is not set: it is like ${example}`);
    return value;
  }

  /** A value that may stand in a file, named `@<path>`, as PostgREST has it. */
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
    if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) throw new Error(`${names.join(' or ')} is no port`);
    return Number(value);
  }

  boolean(fallback: boolean, name: string): boolean {
    const value = this.optional(name)?.toLowerCase();
    if (value === undefined) return fallback;
    if (['true', 't', 'yes', 'on', '1'].includes(value)) return true;
    if (['false', 'f', 'no', 'off', '0'].includes(value)) return false;
    throw new Error(`${name} must be true or false`);
  }

  /** An address of the service, without a slash at the end. */
  url(example: string, value: string, ...names: string[]): string {
    const url = URL.canParse(value) ? new URL(value) : undefined;
    if (url === undefined || !/^https?:$/.test(url.protocol)) {
      throw new Error(`${names.join(' or ')} must be a whole URL such as ${example}`);
    }
    return value.replace(/\/+$/, '');
  }

  /** All that begin so and were not asked for. */
  others(prefix: string): Record<string, string> {
    const entries = Object.entries(this.values) as [string, string][];
    return Object.fromEntries(
      entries.filter(([name, value]) => name.startsWith(prefix) && value && !this.#read.has(name)),
    );
  }
}
