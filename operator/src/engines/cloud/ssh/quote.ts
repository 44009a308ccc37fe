/** Returns the command for the shell of the remote user, which passes the arguments on unchanged. */
export function quoted(args: readonly string[]): string {
  if (args.some((arg) => arg.includes('\0'))) throw new Error('an argument contains a NUL character');
  return args.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`)).join(' ');
}
