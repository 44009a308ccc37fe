/** Parsers of settings. Each throws an Error that describes the expected form, never the value. */
export interface Reader<T> {
  (text: string): T;
  /** Type of the value in JSON. Default: a string with the text itself. */
  type?: 'boolean' | 'integer';
  /** True if the value must not be shown. */
  isSecret?: true;
}

export const secret = <T>(reader: Reader<T>): Reader<T> =>
  Object.assign((text: string) => reader(text), { isSecret: true as const });

/** Parses one line. A file that holds a setting often ends with a newline, which is dropped. */
export const line: Reader<string> = (text) => {
  const value = text.replace(/\r?\n$/, '');
  if (/[\u0000-\u001f\u007f]/.test(value)) throw new Error('it must be one line without control characters');
  return value;
};

export const boolean: Reader<boolean> = Object.assign(
  (text: string) => {
    const value = text.trim().toLowerCase();
    if (value === 'true' || value === '1') return true;
    if (value === 'false' || value === '0') return false;
    throw new Error('it must be true or false');
  },
  { type: 'boolean' as const },
);

export const integer = (from: number, to: number): Reader<number> =>
  Object.assign(
    (text: string) => {
      const value = Number(text);
      if (!/^\d+$/.test(text.trim()) || value < from || value > to) {
        throw new Error(`it must be a whole number from ${from} to ${to}`);
      }
      return value;
    },
    { type: 'integer' as const },
  );

export const list: Reader<string[]> = (text) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

export const url: Reader<string> = (text) => {
  const trimmed = text.trim();
  if (!URL.canParse(trimmed) || /\s/.test(trimmed))
    throw new Error('it must be a whole URL such as https://example.com');
  return trimmed;
};

const UNITS = { h: 3600, m: 60, s: 1, ms: 0.001 };
const DURATION = /^(\d+(\.\d+)?(h|ms|m|s))+$/;

/** Parses a duration as Go writes it, `24h` or `1h30m`, into seconds. */
export const duration: Reader<number> = (text) => {
  if (text === '0') return 0;
  if (!DURATION.test(text)) throw new Error('it must be a duration such as 24h or 1h30m');
  let seconds = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g)) {
    seconds += Number(amount) * UNITS[unit as keyof typeof UNITS];
  }
  return seconds;
};

export const headerName: Reader<string> = (text) => {
  if (!/^[A-Za-z0-9-]+$/.test(text)) throw new Error('it must be the name of a header such as X-Forwarded-For');
  return text.toLowerCase();
};

/** Parses required characters: `abc:123` requires one of each set; `\:` is a literal colon. */
export function characterSets(text: string): string[] {
  return text
    .split(/(?<!\\):/)
    .map((set) => set.replaceAll('\\:', ':'))
    .filter((set) => set !== '');
}

/** Parses `491701234567:123456,…`: test numbers, which get no message, and their codes. */
export function testCodes(text: string): Map<string, string> {
  const pairs = text.split(',').map((pair) => pair.trim().split(':'));
  if (!pairs.every(([phone, code]) => /^\d+$/.test(phone ?? '') && /^\d+$/.test(code ?? ''))) {
    throw new Error('it must be a list such as 491701234567:123456');
  }
  return new Map(pairs as [string, string][]);
}
