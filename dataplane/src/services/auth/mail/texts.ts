/** Fills the templates of mails with values, which are escaped. */
const VARIABLE = /\{\{-?\s*\.([A-Za-z]+(?:\.[A-Za-z0-9_]+)*)\s*-?\}\}/g;

export type TemplateValues = Readonly<Record<string, unknown>>;

/** Replaces variables in a template. Unknown variables become empty. */
export function fillTemplate(template: string, values: TemplateValues, escaped: (text: string) => string): string {
  return template.replace(VARIABLE, (_, path: string) => {
    let value: unknown = values;
    for (const name of path.split('.')) {
      value = typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? Reflect.get(value, name) : '';
    }
    return escaped(typeof value === 'string' || typeof value === 'number' ? String(value) : '');
  });
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};
export const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string);
/** Reduces a subject to one line. */
export const escapeSubject = (text: string) => text.replace(/[\r\n]+/g, ' ');
