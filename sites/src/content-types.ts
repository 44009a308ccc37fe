/** Content types of the files of sites, by extension. */
import path from 'node:path';
import { contentType } from 'mime-types';

/** The type of files with an unknown extension. Browsers save such files instead of showing them. */
const UNKNOWN = 'application/octet-stream';

/** Caches types by extension. Its size is bounded by the number of extensions that the library knows. */
const KNOWN = new Map<string, string>();

/** Returns the Content-Type of a file. For text it includes the charset. */
export function contentTypeOf(file: string): string {
  const extension = path.extname(file);
  const known = KNOWN.get(extension);
  if (known !== undefined) return known;
  const type = contentType(extension);
  if (type === false) return UNKNOWN;
  if (extension === extension.toLowerCase()) KNOWN.set(extension, type);
  return type;
}
