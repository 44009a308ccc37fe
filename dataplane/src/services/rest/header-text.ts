/** Filters response headers of a project's functions: drops those that frame the message, and line breaks. */

const FRAMING: ReadonlySet<string> = new Set(['connection', 'content-length', 'transfer-encoding', 'upgrade']);
const TOKEN = /^[!#$%&'*+\-.^_`|~\w]+$/;
const LINE = /^[\t\x20-\x7e\x80-\xff]*$/;

export const isFraming = (name: string) => FRAMING.has(name.toLowerCase());
export const isToken = (name: string) => TOKEN.test(name);
export const isLine = (value: string) => LINE.test(value);
