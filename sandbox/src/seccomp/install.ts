/**
 * Runs inside Deno: installs a filter of system calls and executes another program, with the same process id. In: as
 * arguments a prefix, the number of the system call `seccomp`, the filter in hexadecimal digits, and a command. The
 * command's environment is the values of the variables with the prefix (`NAME=value`), and empty without one. Exits
 * with a status other than 0 if the kernel rejects the filter.
 */
interface Library {
  symbols: {
    prctl(option: number, value: bigint, third: bigint, fourth: bigint, fifth: bigint): number;
    syscall(number: bigint, operation: bigint, flags: bigint, program: Uint8Array<ArrayBuffer>): bigint;
    execvpe(file: Uint8Array<ArrayBuffer>, args: Uint8Array<ArrayBuffer>, env: Uint8Array<ArrayBuffer>): number;
  };
}
interface DenoNamespace {
  args: string[];
  env: { toObject(): Record<string, string> };
  dlopen(name: string, symbols: object): Library;
  UnsafePointer: { of(bytes: Uint8Array<ArrayBuffer>): object; value(pointer: object): bigint };
}
declare const Deno: DenoNamespace;

const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_SET_MODE_FILTER = 1n;
/**
 * Flag of the system call `seccomp`. Without it, older kernels slow down every filtered process by disabling
 * speculation.
 */
const SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4n;

const [prefix = '', seccomp = '', filter = '', ...command] = Deno.args;
const { prctl, syscall, execvpe } = Deno.dlopen('libc.so.6', {
  prctl: { parameters: ['i32', 'usize', 'usize', 'usize', 'usize'], result: 'i32' },
  syscall: { parameters: ['i64', 'u64', 'u64', 'buffer'], result: 'i64' },
  execvpe: { parameters: ['buffer', 'buffer', 'buffer'], result: 'i32' },
}).symbols;

if (prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n) !== 0) throw new Error('no-new-privileges was refused');
const instructions = new Uint8Array((filter.match(/../g) ?? []).map((digits) => Number.parseInt(digits, 16)));
const program = new BigUint64Array([BigInt(instructions.length / 8), addressOf(instructions)]);
if (syscall(BigInt(seccomp), SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, bytesOf(program)) !== 0n)
  throw new Error('the filter was refused');

const words = command.map(encoded);
execvpe(words[0] as Uint8Array<ArrayBuffer>, pointersTo(words), pointersTo(variables().map(encoded)));
throw new Error(`${command[0]} can't be run`);

function variables(): string[] {
  if (prefix === '') return [];
  const all = Object.entries(Deno.env.toObject()).filter(([name]) => name.startsWith(prefix));
  return all.map(([, nameAndValue]) => nameAndValue);
}

function encoded(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

/** Returns an array of pointers that ends with a null pointer. */
function pointersTo(texts: Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  return bytesOf(new BigUint64Array([...texts.map(addressOf), 0n]));
}

function addressOf(bytes: Uint8Array<ArrayBuffer>): bigint {
  return BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)));
}

function bytesOf(numbers: BigUint64Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(numbers.buffer);
}

export {};
