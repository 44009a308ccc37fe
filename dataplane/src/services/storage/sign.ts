/** Signs URLs that open an object without a key for a limited time, for callers that may read it. */
import { rows } from './database.js';
import { invalidRequest } from './errors.js';
import { foundObject } from './found-object.js';
import { transformText } from './image-options.js';
import { jsonBody, wholeNumber } from './json-body.js';
import { checkedName, inSignedUrl, keyOf, type ObjectPlace } from './names.js';
import { signed } from './signed-token.js';
import { answer, ask, type StorageContext } from './storage-context.js';

const LONGEST_SECONDS = 10 * 365 * 24 * 3600;
const MOST_PATHS = 1000;

export async function sign(context: StorageContext, at: ObjectPlace): Promise<void> {
  const { expiresIn, transform } = await jsonBody(context.request);
  const seconds = wholeNumber(expiresIn, 'expiresIn', { least: 1, most: LONGEST_SECONDS });
  await foundObject(context, at, 'authenticated', 'object.sign');
  answer(context, { signedURL: await signedAddress(context, at, seconds, transform) });
}

export async function signMany(context: StorageContext, bucket: string): Promise<void> {
  const { expiresIn, paths } = await jsonBody(context.request);
  const seconds = wholeNumber(expiresIn, 'expiresIn', { least: 1, most: LONGEST_SECONDS });
  if (!Array.isArray(paths) || paths.length === 0 || paths.length > MOST_PATHS) {
    throw invalidRequest(`paths must be a list of 1 to ${MOST_PATHS} names`);
  }
  const seen = await ask<{ name: string }>(
    context,
    'object.sign_many',
    rows(
      'sign-many',
      'select name from storage.objects where bucket_id = $1 and name in (select json_array_elements_text($2::json))',
      [bucket, JSON.stringify(paths.filter((path) => typeof path === 'string' && !path.includes('\0')))],
    ),
  );
  const names = new Set(seen.map(({ name }) => name));
  const answers = paths.map(async (path: unknown) =>
    typeof path === 'string' && names.has(path)
      ? { error: null, path, signedURL: await signedAddress(context, { bucket, name: checkedName(path) }, seconds) }
      : { error: 'Either the object does not exist or you do not have access to it', path, signedURL: null },
  );
  answer(context, await Promise.all(answers));
}

async function signedAddress(
  { request: { tenant } }: StorageContext,
  at: ObjectPlace,
  seconds: number,
  transform?: unknown,
): Promise<string> {
  const transformations = transformText(transform);
  const claims = { use: 'download', url: keyOf(at), ...(transformations ? { transformations } : {}) } as const;
  const token = await signed(tenant, claims, seconds);
  const route = transformations ? 'render/image/sign' : 'object/sign';
  return `/${route}/${inSignedUrl(at)}?token=${token}`;
}
