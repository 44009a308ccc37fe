/** Parsers of settings. Each throws an Error that describes the expected form, never the value. */
export type Reader<T> = (text: string) => T;

export const string: Reader<string> = (text) => text;

export const boolean: Reader<boolean> = (text) => {
  const value = text.trim().toLowerCase();
  if (value === 'true' || value === '1') return true;
  if (value === 'false' || value === '0') return false;
  throw new Error('it must be true or false');
};

export const integer =
  (from: number, to: number): Reader<number> =>
  (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text.trim()) || value < from || value > to) {
      throw new Error(`it must be a whole number from ${from} to ${to}`);
    }
    return value;
  };

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
