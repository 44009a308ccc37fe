/** Decodes paths in percent-encoding. */

/** Returns the path decoded once, without its leading slash; undefined if it is no UTF-8. */
export function decodedPath(path: string): string | undefined {
  try {
    return path.includes('%') ? decodeURIComponent(path.slice(1)) : path.slice(1);
  } catch {
    return undefined;
  }
}

export const encodedPath = (path: string) => path.split('/').map(encodeURIComponent).join('/');
