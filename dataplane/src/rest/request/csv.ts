/** A CSV body as rows of JSON: the first line names the columns, `NULL` is null, and all other values are texts. */
import { invalidBody } from '../errors.js';

const FIELD = /"((?:[^"]|"")*)"|([^",\r\n]*)/y;
const END = /,|\r\n|\n|\r|$/y;

export function csvRows(text: string): Record<string, string | null>[] {
  const [header = [], ...lines] = csvLines(text);
  return lines.map((line) => {
    if (line.length !== header.length) throw invalidBody('All lines must have same number of fields');
    return Object.fromEntries(line.map((value, i) => [header[i], value === 'NULL' ? null : value]));
  });
}

function csvLines(text: string): string[][] {
  const lines: string[][] = [];
  let line: string[] = [];
  for (let at = 0; at < text.length || line.length > 0; ) {
    FIELD.lastIndex = at;
    const [field, quoted, plain] = FIELD.exec(text) as RegExpExecArray;
    line.push(quoted === undefined ? (plain as string) : quoted.replaceAll('""', '"'));
    END.lastIndex = at + field.length;
    const end = END.exec(text);
    if (!end) throw invalidBody(`Invalid CSV at character ${at + field.length + 1}`);
    at += field.length + end[0].length;
    if (end[0] === ',') continue;
    lines.push(line);
    line = [];
  }
  return lines;
}
