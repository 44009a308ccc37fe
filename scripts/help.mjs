/** Prints the usage of an npm script and exits, if `-h` or `--help` is among its arguments. Called first. */
export function helpOr(text) {
  if (!process.argv.slice(2).some((word) => word === '-h' || word === '--help')) return;
  process.stdout.write(`${text}\n`);
  process.exit(0);
}
