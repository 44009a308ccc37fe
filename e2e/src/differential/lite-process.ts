/**
 * Runs the command line of @supabase/lite in a process that ends with its parent. Argument: the path of its program.
 */
process.once('disconnect', () => process.exit());
const [, , program = ''] = process.argv;
process.argv = [process.execPath, program, 'start', '--no-admin'];
await import(program);
