/**
 * Builds a filter of system calls (seccomp) in the kernel's format, and the command prefix that installs it. In: rules
 * for single calls, and the path of Deno, which can call the C library. Out: a prefix for a command, which then runs
 * under the filter with the same process id. Only Linux on x64 and arm64; needs no rights and no namespace.
 */
import { fileURLToPath } from 'node:url';

export interface Machine {
  /** Kernel's id of the architecture (AUDIT_ARCH_…). Numbers of system calls differ between architectures. */
  audit: number;
  seccomp: number;
  /** Index of this machine's number in a table of calls. */
  column: 0 | 1;
}

const MACHINES: Partial<Record<NodeJS.Architecture, Machine>> = {
  x64: { audit: 0xc000_003e, seccomp: 317, column: 0 },
  arm64: { audit: 0xc000_00b7, seccomp: 277, column: 1 },
};
export const machineHere = () => (process.platform === 'linux' ? MACHINES[process.arch] : undefined);

/** Number of a system call on x64 and on arm64. */
export type Call = readonly [x64: number, arm64: number];

/** Number of the first system call of the x32 ABI on x86-64, which has its own numbers. */
const X32 = 0x4000_0000;
const ENOSYS = 38;

/** Offsets of fields in struct seccomp_data, little endian. */
const NUMBER = 0;
const ARCHITECTURE = 4;

export type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];
const load = (offset: number): Instruction => [0x20, 0, 0, offset];
const end = (value: number): Instruction => [0x06, 0, 0, value];
/** Loads the lower half of a call's argument. */
export const loadArgument = (index: number) => load(16 + 8 * index);
export const and = (mask: number): Instruction => [0x54, 0, 0, mask];
export const skipIf = (value: number, skipped: number): Instruction => [0x15, skipped, 0, value];
export const skipUnless = (value: number, skipped: number): Instruction => [0x15, 0, skipped, value];
const skipIfBelow = (value: number, skipped: number): Instruction => [0x35, 0, skipped, value];
export const ALLOW = end(0x7fff_0000);
const KILL = end(0x8000_0000);
export const fail = (code: number) => end(0x0005_0000 | code);

/** Instructions that decide about one call. The last one returns. */
export interface Rule {
  call: Call;
  instructions: readonly Instruction[];
}

/** Returns a filter that allows every call without a rule. A call of another architecture kills the process. */
export function filterOf({ audit, column }: Machine, rules: readonly Rule[]): Buffer {
  const program = [
    load(ARCHITECTURE),
    skipIf(audit, 1),
    KILL,
    load(NUMBER),
    skipIfBelow(X32, 1),
    fail(ENOSYS),
    ...rules.flatMap(({ call, instructions }) => [skipUnless(call[column], instructions.length), ...instructions]),
    ALLOW,
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(ifTrue, at * 8 + 2);
    bytes.writeUInt8(ifFalse, at * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, at * 8 + 4);
  }
  return bytes;
}

/**
 * Path of the script by which Deno installs a filter. A command with its own root folder needs the script inside that
 * folder.
 */
export const INSTALLER = fileURLToPath(new URL('./install.js', import.meta.url));
const DENO_FLAGS = ['run', '--quiet', '--no-prompt', '--no-config', '--no-lock', '--no-code-cache', '--allow-ffi'];

/**
 * Returns the command prefix that installs a filter. The command's environment is the values, each `NAME=value`, of the
 * variables whose names have the prefix. Without a prefix it is empty.
 */
export function installing(deno: string, filter: Buffer, { seccomp }: Machine, prefix = ''): string[] {
  const readsEnvironment = prefix === '' ? [] : ['--allow-env'];
  return [deno, ...DENO_FLAGS, ...readsEnvironment, INSTALLER, prefix, String(seccomp), filter.toString('hex')];
}
