/**
 * Reads the code of a TypeScript source without its prose. In: a source. Out: the source without comments and without
 * the texts of strings, except those that a caller keeps. Regular expressions keep their text.
 */

const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const STRING = /'(?:[^'\\\n]|\\[\s\S])*'|"(?:[^"\\\n]|\\[\s\S])*"/y;
const TEMPLATE_TEXT = /(?:[^`\\$]|\\[\s\S]|\$(?!\{))*/y;
const REGULAR_EXPRESSION = /\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;
/** Code after which a slash begins a regular expression, and does not divide. */
const BEFORE_OPERAND = /(?:^|[(,=:[!&|?{};+>]|\breturn|\bof|\bin|\bcase)\s*$/;

/** `kept` returns what remains of a string's text. @throws if a string or a template does not end */
export function codeText(source: string, kept: (text: string) => string): string {
  /** For each open `${`, the number of braces that are open within it. */
  const open: number[] = [];
  let code = '';
  let at = 0;
  const read = (form: RegExp): string | undefined => {
    form.lastIndex = at;
    const text = form.exec(source)?.[0];
    at += text?.length ?? 0;
    return text;
  };
  const readTemplate = () => {
    code += kept(read(TEMPLATE_TEXT) as string);
    if (source[at] === undefined) throw new Error('a template does not end');
    if (source[at] === '`') code += source[at++];
    else {
      code += '${';
      at += 2;
      open.push(0);
    }
  };
  while (at < source.length) {
    if (read(COMMENT) !== undefined) continue;
    const string = read(STRING);
    if (string !== undefined) {
      code += `${string[0]}${kept(string.slice(1, -1))}${string[0]}`;
      continue;
    }
    if (source[at] === '/' && BEFORE_OPERAND.test(code.slice(-20))) {
      code += read(REGULAR_EXPRESSION) ?? source[at++];
      continue;
    }
    const character = source[at++] as string;
    code += character;
    if (character === "'" || character === '"') throw new Error(`a string does not end: ${source.slice(at, at + 40)}`);
    if (character === '`') readTemplate();
    const braces = open.at(-1);
    if (braces === undefined) continue;
    if (character === '{') open[open.length - 1] = braces + 1;
    else if (character === '}' && braces > 0) open[open.length - 1] = braces - 1;
    else if (character === '}') {
      open.pop();
      readTemplate();
    }
  }
  if (open.length > 0) throw new Error('a template does not end');
  return code;
}
