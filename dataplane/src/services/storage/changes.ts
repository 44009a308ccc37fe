/** Moves, copies and deletes objects as the caller. A move changes only names, because content is stored by version. */
import { uuidOrNull } from './buckets.js';
import { type Row, rows, subjectOf } from './database.js';
import { invalidRequest, noSuchKey } from './errors.js';
import { type FoundObject, foundObject, ofObject, sizeOf } from './found-object.js';
import { jsonBody } from './json-body.js';
import { checkedBucket, checkedName, keyOf, type ObjectPlace } from './names.js';
import { allowedBytes, bucketRules, mayPlace, newContent, ownPlacement, place } from './placing.js';
import { contentOf, removeContentOf } from './row-content.js';
import { answer, answerRows, ask, askToDelete, type StorageContext } from './storage-context.js';
import { userMetadata } from './upload.js';
import { reserving } from './usage.js';

const MOST_REMOVED = 1000;

async function sourceAndTarget(context: StorageContext) {
  const body = await jsonBody(context.request);
  const bucket = checkedBucket(body.bucketId);
  const source: ObjectPlace = { bucket, name: checkedName(body.sourceKey) };
  const target: ObjectPlace = {
    bucket: checkedBucket(body.destinationBucket ?? bucket),
    name: checkedName(body.destinationKey),
  };
  return { body, source, target };
}

export async function move(context: StorageContext): Promise<void> {
  const { source, target } = await sourceAndTarget(context);
  const owner = subjectOf(context.request.caller);
  const object = await foundObject(context, source, 'authenticated', 'object.move');
  contentOf(context, object);
  if (keyOf(source) !== keyOf(target)) {
    if (source.bucket !== target.bucket) await checkTarget(context, target, object);
    const [moved] = await ask(
      context,
      'object.move',
      rows(
        'move',
        `update storage.objects set bucket_id = $3, name = $4, owner = coalesce($5::uuid, owner),
           owner_id = coalesce($6, owner_id)
         where bucket_id = $1 and name = $2 returning id`,
        [source.bucket, source.name, target.bucket, target.name, uuidOrNull(owner), owner ?? null],
      ),
    );
    if (!moved) throw noSuchKey();
  }
  answer(context, { message: 'Successfully moved', Id: object.id, Key: keyOf(target) });
}

/** Checks that the target bucket allows the moved object. */
async function checkTarget(context: StorageContext, target: ObjectPlace, object: FoundObject) {
  const rules = await bucketRules(context, target.bucket, 'object.move');
  allowedBytes(context, rules, typeOf(object), sizeOf(object));
}

const typeOf = ({ metadata }: FoundObject) => metadata?.mimetype ?? 'application/octet-stream';

export async function copy(context: StorageContext): Promise<void> {
  const { body, source, target } = await sourceAndTarget(context);
  const { headers } = context.request.incoming;
  const placement = ownPlacement(context, target, 'object.copy', headers['x-upsert'] === 'true');
  const content = newContent(context);
  const copied = await ofObject(
    context,
    source,
    { access: 'authenticated', operation: 'object.copy' },
    async (object) => {
      const rules = await mayPlace(context, placement);
      allowedBytes(context, rules, typeOf(object), sizeOf(object));
      const from = contentOf(context, object);
      // Not the row's size, because the owner can change it.
      const bytes = await context.content.size(from);
      await reserving(context, bytes, () => context.content.copy(from, content).then(() => bytes));
      return object;
    },
  );
  const original = body.copyMetadata === false ? null : copied.user_metadata;
  const header = headers['x-metadata'];
  const description = {
    mimetype: typeOf(copied),
    cacheControl: copied.metadata?.cacheControl ?? 'no-cache',
    userMetadata:
      typeof header === 'string'
        ? userMetadata(Buffer.from(header, 'base64').toString())
        : original && JSON.stringify(original),
  };
  const id = await place(context, placement, { content, size: sizeOf(copied), description });
  answer(context, { Id: id, Key: keyOf(target) });
}

export async function removeMany(context: StorageContext, bucket: string): Promise<void> {
  const { prefixes } = await jsonBody(context.request);
  if (!Array.isArray(prefixes) || prefixes.length === 0 || prefixes.length > MOST_REMOVED) {
    throw invalidRequest(`prefixes must be a list of 1 to ${MOST_REMOVED} names`);
  }
  const names = prefixes.filter((name) => typeof name === 'string' && !name.includes('\0'));
  await answerRows(context, await removed(context, { bucket, names }, 'object.delete_many', '*'));
}

export async function removeOne(context: StorageContext, { bucket, name }: ObjectPlace): Promise<void> {
  if ((await removed(context, { bucket, names: [name] }, 'object.delete', 'version')).length === 0) throw noSuchKey();
  answer(context, { message: 'Successfully deleted' });
}

async function removed(
  context: StorageContext,
  { bucket, names }: { bucket: string; names: string[] },
  operation: string,
  columns: '*' | 'version',
): Promise<Row[]> {
  const deleted = await askToDelete(
    context,
    operation,
    rows(
      columns === '*' ? 'remove' : 'remove-one',
      `delete from storage.objects
       where bucket_id = $1 and name in (select json_array_elements_text($2::json)) returning ${columns}`,
      [bucket, JSON.stringify(names)],
    ),
  );
  await removeContentOf(context, deleted);
  return deleted;
}
