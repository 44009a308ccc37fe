/** Paths of forms at a site's own origin. */

const PREFIX = '/forms/';
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** `target` is the path and query of a request, as sent. */
export const isFormPath = (target: string): boolean => target.startsWith(PREFIX);

/** Returns the name of the form; undefined if no form can have this path. Names have no characters to decode. */
export function formNameOf(target: string): string | undefined {
  const [path = ''] = target.split('?', 1);
  const name = path.slice(PREFIX.length);
  return NAME.test(name) ? name : undefined;
}
