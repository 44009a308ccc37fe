/** Versions of objects in the store: the JSON as bytes, and a decoded outline. */
import type { KubeObject } from '../objects.js';

/** Bytes above which a text is shortened in an object's outline. */
const LONG_TEXT_BYTES = 4096;

/**
 * One version of one object. Its bytes are outside of the JavaScript heap, where text may take two bytes a character.
 */
export class StoredObject {
  /** The resource as plural with its group: `secrets`, `projects.slipway.dev`. */
  readonly resource: string;
  /** The namespace, or '' for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  /** The object as JSON in UTF-8, as in Postgres and in responses. */
  readonly bytes: Buffer;
  /**
   * The object with all its metadata, but with only the beginnings of other long texts. It is for selectors, columns
   * and controllers. It must not be changed.
   */
  readonly outline: KubeObject;

  /** @param object the decoded `bytes`, which must not be changed from here on */
  constructor({ resource, namespace, name }: Place, revision: number, bytes: Buffer, object: KubeObject) {
    this.resource = resource;
    this.namespace = namespace;
    this.name = name;
    this.revision = revision;
    this.bytes = bytes;
    this.outline = bytes.length > LONG_TEXT_BYTES ? outlineOf(object) : object;
  }

  /** Returns the whole object. It is decoded on each call if it has long texts. It must not be changed. */
  get object(): KubeObject {
    return IS_CUT in this.outline ? (JSON.parse(this.bytes.toString()) as KubeObject) : this.outline;
  }
}

export interface Place {
  resource: string;
  namespace: string;
  name: string;
}

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

/** One committed write. For a deletion, `stored` is the last state, with the revision of the deletion. */
export interface Change {
  readonly type: ChangeType;
  readonly stored: StoredObject;
  readonly previous: StoredObject | undefined;
}

export function newVersion(place: Place, revision: number, object: KubeObject): StoredObject {
  object.metadata.resourceVersion = String(revision);
  return new StoredObject(place, revision, bytesOf(JSON.stringify(object)), object);
}

/**
 * Returns a buffer with exactly the text's size. A small buffer would otherwise keep a larger shared buffer in memory.
 */
export function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** Marks outlines that are incomplete. */
const IS_CUT = Symbol('long texts are cut');

function outlineOf(object: KubeObject): KubeObject {
  const { metadata, ...others } = object;
  const cut = withoutLongTexts(others) as typeof others;
  if (cut === others) return object;
  const outline = { ...cut, metadata } as KubeObject;
  Object.defineProperty(outline, IS_CUT, { value: true });
  return outline;
}

/** Returns the value itself if it contains no long text. */
function withoutLongTexts(value: unknown): unknown {
  if (typeof value === 'string') return value.length > LONG_TEXT_BYTES ? beginningOf(value) : value;
  if (Array.isArray(value)) {
    const items = value.map(withoutLongTexts);
    return items.some((item, at) => item !== value[at]) ? items : value;
  }
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).map(([name, child]) => [name, child, withoutLongTexts(child)] as const);
  if (entries.every(([, child, kept]) => child === kept)) return value;
  return Object.fromEntries(entries.map(([name, , kept]) => [name, kept]));
}

/** Returns a copy, because a slice would keep the whole text in memory. */
const beginningOf = (text: string): string => Buffer.from(text.slice(0, LONG_TEXT_BYTES)).toString();
