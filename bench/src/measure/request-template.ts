/**
 * The request of a load generator. `{random}` becomes a whole number between `lowest` and `highest`; `{unique}` becomes
 * a number that no other request of the run has.
 */
export interface RequestTemplate {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
  lowest?: number;
  highest?: number;
}

/** Returns a function that writes the next request's bytes. */
export function compileTemplate(template: RequestTemplate, host: string): () => string {
  const { method, lowest = 0, highest = 0 } = template;
  const head = Object.entries({ host, connection: 'keep-alive', ...template.headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const path = compileText(template.path, lowest, highest);
  if (template.body === undefined) return () => `${method} ${path()} HTTP/1.1\r\n${head}\r\n`;
  const body = compileText(template.body, lowest, highest);
  return () => {
    const text = body();
    return `${method} ${path()} HTTP/1.1\r\n${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
  };
}

/** Returns the request with these values for `{random}` and `{unique}`. */
export function sampleOf(template: RequestTemplate, random: number, unique: number): RequestTemplate {
  const fill = (text: string) => text.replaceAll('{random}', String(random)).replaceAll('{unique}', String(unique));
  const { path, body } = template;
  return { ...template, path: fill(path), ...(body === undefined ? {} : { body: fill(body) }) };
}

let unique = 0;

function compileText(text: string, lowest: number, highest: number): () => string {
  const parts = text.split(/(\{random\}|\{unique\})/);
  if (parts.length === 1) return () => text;
  const part = (piece: string): string => {
    if (piece === '{random}') return String(lowest + Math.floor(Math.random() * (highest - lowest + 1)));
    if (piece === '{unique}') return String(++unique);
    return piece;
  };
  return () => parts.map(part).join('');
}
