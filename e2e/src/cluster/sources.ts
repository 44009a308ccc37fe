/** Hashes every file that images/Dockerfile copies. If the hash is unchanged, no image has to be built. */
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';

export const DOCKERFILE = 'images/Dockerfile';

const isLeftOut = (file: string) => /(^|\/)(dist|node_modules)(\/|$)|\.test\.ts$/.test(file);

export async function hashOfSources(root: string): Promise<string> {
  const dockerfile = await readFile(path.join(root, DOCKERFILE), 'utf8');
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
    ([, names]) => names?.split(' ') ?? [],
  );
  const files = await Promise.all([...new Set(copied)].map((name) => filesOf(root, name)));
  const hash = createHash('sha256').update(dockerfile);
  for (const file of [...new Set(files.flat())].sort()) {
    hash.update(`\0${file}\0`).update(await readFile(path.join(root, file)));
  }
  return hash.digest('hex');
}

/** Returns paths relative to the root: of a file, or of all files below a folder. */
async function filesOf(root: string, name: string): Promise<string[]> {
  if (!(await stat(path.join(root, name))).isDirectory()) return [name];
  const entries = await readdir(path.join(root, name), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((file) => !isLeftOut(file));
}
