/** Something that the person who started Slipway can put right: told as one line, which names the fix. */
export class StartProblem extends Error {}

const REASONS: Record<string, (where: string) => string> = {
  ENOSPC: (where) => `the disk is full${where}: free some space, or set SLIPWAY_HOME to a folder on another disk`,
  EDQUOT: (where) => `the disk quota is used up${where}: free some space, or set SLIPWAY_HOME to a folder elsewhere`,
  EACCES: (where) => `may not write${where}: set SLIPWAY_HOME to a folder of yours`,
  EPERM: (where) => `may not write${where}: set SLIPWAY_HOME to a folder of yours`,
  EROFS: (where) => `the file system is read-only${where}: set SLIPWAY_HOME to a folder that can be written`,
  ENOENT: (where) => `there can be no folder${where}: set SLIPWAY_HOME to a folder of yours`,
  ENOTDIR: (where) => `there is a file where a folder should be${where}: set SLIPWAY_HOME to another folder`,
  EEXIST: (where) => `there is a file where a folder should be${where}: set SLIPWAY_HOME to another folder`,
};

/** Returns the error in one line. */
export function inOneLine(error: unknown): string {
  const { message, code, path } = error as NodeJS.ErrnoException;
  const reason = REASONS[code ?? ''] ?? (/No space left on device/.test(message) ? REASONS.ENOSPC : undefined);
  const text = error instanceof StartProblem || !reason ? String(message ?? error) : reason(path ? ` at ${path}` : '');
  return text.split('\n').filter(Boolean).join('; ');
}
