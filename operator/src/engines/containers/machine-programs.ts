/**
 * Copies programs of this machine into the context of an image. So an image can be built and run where none can be
 * pulled, to try an engine.
 */
import { cp, mkdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { systemCommand } from './system-command.js';

/** Copies the programs, each with the libraries that it loads, to the paths that they have here. */
export async function copyPrograms(context: string, programs: readonly string[]): Promise<void> {
  for (const program of programs) {
    for (const file of [program, ...(await librariesOf(program))]) {
      const copy = path.join(context, file);
      await mkdir(path.dirname(copy), { recursive: true });
      await cp(await realpath(file), copy);
    }
  }
}

async function librariesOf(program: string): Promise<string[]> {
  const listed = await systemCommand(['ldd', await realpath(program)]);
  return [...listed.matchAll(/(\/[^\s():]+) \(0x/g)].map(([, file]) => file as string);
}
