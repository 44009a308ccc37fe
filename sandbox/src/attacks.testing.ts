/**
 * Deno script for tests of the filter, which makes system calls by number. In: as arguments, calls of the form `number
 * argument…`. Out: a line with the error number of each; 0 is success.
 */
export const CALLS = `
  const { syscall, __errno_location } = Deno.dlopen('libc.so.6', {
    syscall: { parameters: Array(7).fill('i64'), result: 'i64' },
    __errno_location: { parameters: [], result: 'pointer' },
  }).symbols;
  const errno = () => new Deno.UnsafePointerView(__errno_location()).getInt32();
  const made = (call) => {
    const [number, ...args] = call.split(' ').map(BigInt);
    return syscall(number, ...args, ...Array(6 - args.length).fill(0n)) < 0n ? errno() : 0;
  };
  console.log(Deno.args.map(made).join(' '));`;
