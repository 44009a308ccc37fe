/** Objects moved, copied and removed as the caller. A move changes names alone: content lies under its version. */
import { uuidOrNull } from './buckets.js';
import { type Row, rows, subjectOf } from './database.js';
import { invalidRequest, noSuchKey } from './errors.js';
import { answer, ask, type Exchange, withTimes } from './exchange.js';
import { type FoundObject, foundObject, ofObject, sizeOf } from './found-object.js';
import { jsonBody } from './json-body.js';
import { checkedBucket, checkedName, keyOf, type ObjectPlace } from './names.js';
import { allowedBytes, bucketRules, mayPlace, newContent, ownPlacement, place } from './placing.js';
import { contentOf, removeContentOf } from './row-content.js';
import { userMetadata } from './upload.js';

const MOST_REMOVED = 1000;

async function sourceAndTarget(exchange: Exchange) {
  const body = await jsonBody(exchange.request.incoming);
  const bucket = checkedBucket(body.bucketId);
  const source: ObjectPlace = { bucket, name: checkedName(body.sourceKey) };
  const target: ObjectPlace = {
    bucket: checkedBucket(body.destinationBucket ?? bucket),
    name: checkedName(body.destinationKey),
  };
  return { body, source, target };
}

export async function move(exchange: Exchange): Promise<void> {
  const { source, target } = await sourceAndTarget(exchange);
  const owner = subjectOf(exchange.request.caller);
  const found = await foundObject(exchange, source, 'authenticated', 'object.move');
  contentOf(exchange, found);
  if (keyOf(source) !== keyOf(target)) {
    if (source.bucket !== target.bucket) await checkTarget(exchange, target, found);
    const [moved] = await ask(
      exchange,
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
  answer(exchange, { message: 'Successfully moved', Id: found.id, Key: keyOf(target) });
}

/** What a bucket doesn't allow isn't moved into it either. */
async function checkTarget(exchange: Exchange, target: ObjectPlace, object: FoundObject) {
  const rules = await bucketRules(exchange, target.bucket, 'object.move');
  allowedBytes(exchange, rules, typeOf(object), sizeOf(object));
}

const typeOf = ({ metadata }: FoundObject) => metadata?.mimetype ?? 'application/octet-stream';

export async function copy(exchange: Exchange): Promise<void> {
  const { body, source, target } = await sourceAndTarget(exchange);
  const { headers } = exchange.request.incoming;
  const placement = ownPlacement(exchange, target, 'object.copy', headers['x-upsert'] === 'true');
  const content = newContent(exchange);
  const found = await ofObject(exchange, source, 'authenticated', 'object.copy', async (object) => {
    const rules = await mayPlace(exchange, placement);
    allowedBytes(exchange, rules, typeOf(object), sizeOf(object));
    await exchange.content.copy(contentOf(exchange, object), content);
    return object;
  });
  const kept = body.copyMetadata === false ? null : found.user_metadata;
  const said = headers['x-metadata'];
  const id = await place(exchange, placement, content, sizeOf(found), {
    mimetype: typeOf(found),
    cacheControl: found.metadata?.cacheControl ?? 'no-cache',
    userMetadata:
      typeof said === 'string' ? userMetadata(Buffer.from(said, 'base64').toString()) : kept && JSON.stringify(kept),
  });
  answer(exchange, { Id: id, Key: keyOf(target) });
}

export async function removeMany(exchange: Exchange, bucket: string): Promise<void> {
  const { prefixes } = await jsonBody(exchange.request.incoming);
  if (!Array.isArray(prefixes) || prefixes.length === 0 || prefixes.length > MOST_REMOVED) {
    throw invalidRequest(`prefixes must be a list of 1 to ${MOST_REMOVED} names`);
  }
  const names = prefixes.filter((name) => typeof name === 'string' && !name.includes('\0'));
  answer(exchange, (await removed(exchange, bucket, names, 'object.delete_many', '*')).map(withTimes));
}

export async function removeOne(exchange: Exchange, { bucket, name }: ObjectPlace): Promise<void> {
  if ((await removed(exchange, bucket, [name], 'object.delete', 'version')).length === 0) throw noSuchKey();
  answer(exchange, { message: 'Successfully deleted' });
}

async function removed(
  exchange: Exchange,
  bucket: string,
  names: string[],
  operation: string,
  columns: '*' | 'version',
): Promise<Row[]> {
  const gone = await ask(
    exchange,
    operation,
    rows(
      columns === '*' ? 'remove' : 'remove-one',
      `delete from storage.objects
       where bucket_id = $1 and name in (select json_array_elements_text($2::json)) returning ${columns}`,
      [bucket, JSON.stringify(names)],
    ),
  );
  await removeContentOf(exchange, gone);
  return gone;
}
