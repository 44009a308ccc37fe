/**
 * Quotes values for the configuration files of a machine. A value with a control character, such as a line break, is
 * refused everywhere, because it could begin a setting of its own.
 */

/** Returns the value. Throws if it has a control character. */
export function oneLine(value: string, name: string): string {
  if (/[\u0000-\u001f\u007f\u0085\u2028\u2029]/.test(value)) throw new Error(`${name} has a control character.`);
  return value;
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const ID = /^[a-z0-9]{1,64}$/;

export function releaseId(value: string): string {
  if (!ID.test(value)) throw new Error('The release id has characters other than letters and digits.');
  return value;
}

/** Returns a file of variables for systemd's `EnvironmentFile`, which expands nothing in it. */
export const environmentFile = (environment: Readonly<Record<string, string>>): string =>
  Object.entries(environment)
    .map(([name, value]) => {
      if (!NAME.test(name))
        throw new Error('The name of an environment variable has characters that no name may have.');
      return `${name}="${oneLine(value, name).replaceAll(/["\\$`]/g, '\\$&')}"\n`;
    })
    .join('');

/** Returns a command line for `ExecStart`, in which systemd replaces neither specifiers nor variables. */
export const commandLine = (args: readonly string[]): string =>
  args
    .map((arg) =>
      oneLine(arg, 'An argument').replaceAll(/["\\]/g, '\\$&').replaceAll('%', '%%').replaceAll('$', '$$$$'),
    )
    .map((arg, at) => (at === 0 ? programPath(arg) : `"${arg}"`))
    .join(' ');

/** The program's place is never quoted: characters before the path, such as `+`, would give it privileges. */
export function programPath(path: string): string {
  if (!/^(\/[\w.@+-]+)+$/.test(path) || path.includes('/../')) {
    throw new Error('A program or folder is not an absolute path of letters, digits and "._@+-".');
  }
  return path;
}

/** Returns the certificate or key. Throws if it is not only PEM. */
export function pem(text: string, label: string): string {
  const block = `-----BEGIN ${label}-----\\n(?:[A-Za-z0-9+/=]+\\n)+-----END ${label}-----\\n`;
  const normal = `${text.replaceAll('\r', '').trimEnd()}\n`;
  if (!new RegExp(`^(?:${block})+$`).test(normal)) throw new Error(`The ${label.toLowerCase()} is not in PEM.`);
  return normal;
}
