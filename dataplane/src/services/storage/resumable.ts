/**
 * Resumable uploads with the TUS protocol, as tus-js-client and Uppy use it with Supabase. The rules and permissions
 * are the same as for any upload.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { Server, type Upload } from '@tus/server';
import type { Logger } from 'pino';
import type { ContentPlace } from './content/content.js';
import { type FileStore, isThere } from './content/files.js';
import { subjectOf } from './database.js';
import { accessDenied, invalidRequest, isPassing, notYetFinished, StorageError, storageError } from './errors.js';
import { checkedBucket, checkedName, keyOf, type ObjectPlace } from './names.js';
import { type Beginning, GONE, type PartialState, PartialUploads } from './partial-uploads.js';
import {
  allowedBytes,
  type Description,
  isNamed,
  mayPlace,
  nameContent,
  ownPlacement,
  type Placement,
  place,
} from './placing.js';
import type { StorageContext, StorageLimits } from './storage-context.js';
import { signedPlacement, userMetadata } from './upload.js';

const PATH = '/upload/resumable';
const SIGNED_PATH = `${PATH}/sign`;

interface Current {
  context: StorageContext;
  beginning: Beginning | undefined;
  /** Upload that this request creates. */
  made: string | undefined;
}

export class Resumable {
  readonly #current = new AsyncLocalStorage<Current>();
  readonly #partials: PartialUploads;
  readonly #server: Server;
  /** Uploads that are being completed, by id, because two requests may find the same upload complete. */
  readonly #finishing = new Map<string, Promise<void>>();

  constructor(
    files: FileStore,
    limits: StorageLimits,
    private readonly log: Logger,
  ) {
    this.#partials = new PartialUploads(files.folder, limits, () => {
      const { context, beginning } = this.#now();
      return { ref: context.request.tenant.ref, beginning, storage: context };
    });
    this.#server = new Server({
      path: PATH,
      datastore: this.#partials,
      namingFunction: () => randomUUID(),
      generateUrl: (_, { id }) => `${this.#address()}/${id}`,
      getFileIdFromRequest: (_, last) => last,
      maxSize: async (_, id) =>
        (id ? (await this.#partials.state(id).catch(() => undefined))?.limit : undefined) ?? limits.fileBytes,
      onIncomingRequest: (request, id) => this.#prepare(request.method, id),
      onUploadCreate: (_, upload) => this.#begin(upload),
      onUploadFinish: async (request, { id }) => {
        await (request.method === 'POST' ? this.#finish(id, place) : this.#finishOrLock(id));
        return {};
      },
      onResponseError: async (_, error) => {
        const { made } = this.#now();
        // No client knows its URL. An upload that can't be removed expires.
        if (made !== undefined) await this.#partials.remove(made).catch(() => undefined);
        return this.#answerTo(error);
      },
    });
  }

  isAt = (path: string) => path === PATH || path.startsWith(`${PATH}/`);

  handle(context: StorageContext): Promise<void> {
    const { incoming, outgoing } = context.request;
    const handle = () =>
      this.#current.run({ context, beginning: undefined, made: undefined }, () =>
        // The server could wait forever for a disconnected client: a response without a body never finishes on a dead
        // connection.
        Promise.race([this.#server.handle(incoming, outgoing), closed(outgoing)]),
      );
    const sends = incoming.method === 'PATCH' || incoming.method === 'POST';
    return sends ? context.uploads.receive(context.request, handle) : handle();
  }

  #now(): Current {
    return this.#current.getStore() as Current;
  }

  /** Returns the URL of uploads as the client sent it, so that it works through any proxy. */
  #address(): string {
    const [address = ''] = (this.#now().context.request.incoming.url ?? '').split('?', 1);
    return address.replace(/\/+$/, '');
  }

  async #begin(upload: Upload): Promise<{ metadata: Record<string, string | null> }> {
    const now = this.#now();
    const { context } = now;
    const { bucketName, objectName, contentType, cacheControl, metadata } = upload.metadata ?? {};
    const at = { bucket: checkedBucket(bucketName), name: checkedName(objectName) };
    const upsert = context.request.incoming.headers['x-upsert'] === 'true';
    const placement = await this.#placement(at, upsert);
    const mimetype = contentType || 'application/octet-stream';
    if (!/^[\t\x20-\x7e]{1,255}$/.test(mimetype)) throw invalidRequest('contentType must be a MIME type');
    const rules = await mayPlace(context, placement, { mimetype });
    const limit = allowedBytes(context, rules, mimetype, upload.size);
    now.made = upload.id;
    now.beginning = { ...at, upsert: placement.upsert, limit, by: await this.#caller(at) };
    return {
      metadata: {
        bucketName: at.bucket,
        objectName: at.name,
        contentType: mimetype,
        cacheControl: cacheControl && /^\d+$/.test(cacheControl) ? `max-age=${cacheControl}` : 'no-cache',
        ...(metadata ? { metadata: userMetadata(metadata) } : {}),
      },
    };
  }

  async #prepare(method: string, id: string): Promise<void> {
    if (method === 'POST') return;
    await this.#checkOwner(id);
    // A client that gets the full offset assumes that the object exists.
    if (method === 'HEAD' && (await this.#partials.isWhole(id))) await this.#finishOrLock(id);
  }

  /**
   * Completes the upload. A temporary failure is reported as locked, because after any other failure of HEAD clients
   * send everything again.
   */
  async #finishOrLock(id: string): Promise<void> {
    try {
      await this.#finish(id, nameContent);
    } catch (error) {
      if (isAnswer(error) || !isPassing(error)) throw error;
      const { requestId } = this.#now().context.request;
      this.log.warn({ err: error, requestId }, 'complete resumable upload not stored as an object');
      throw notYetFinished();
    }
  }

  #finish(id: string, put: typeof place): Promise<void> {
    const running = this.#finishing.get(id) ?? this.#finishAlone(id, put).finally(() => this.#finishing.delete(id));
    this.#finishing.set(id, running);
    return running;
  }

  /** May be interrupted anywhere; the next request for the upload repeats it. */
  async #finishAlone(id: string, put: typeof place): Promise<void> {
    const { context } = this.#now();
    const state = await this.#partials.state(id);
    if (state.isFinished) return this.#checkNamed(id, state);
    const placement = await this.#placement(state, state.upsert);
    const version = state.version ?? (await this.#partials.chooseVersion(id));
    const content = { ref: context.request.tenant.ref, version };
    if (!(await this.#wasNamed(state))) {
      await this.#adopt(id, content);
      const arrived = { content, size: state.size as number, description: descriptionOf(state) };
      await put(context, placement, arrived).catch((error: unknown) => this.#refused(id, state, content, error));
    }
    await this.#partials.finish(id);
  }

  async #adopt(id: string, content: ContentPlace): Promise<void> {
    const { context } = this.#now();
    const file = this.#partials.file(id);
    if (await isThere(file)) return context.content.adopt(content, file);
    if (await context.content.has(content)) return;
    await this.#partials.remove(id);
    throw GONE;
  }

  /**
   * Removes an upload that is rejected for good, unless an earlier statement, whose response was lost, has named it.
   */
  async #refused(id: string, state: PartialState, content: ContentPlace, error: unknown): Promise<void> {
    if (isPassing(error)) throw error;
    if (await this.#wasNamed(state)) return;
    await this.#partials.remove(id);
    // An earlier statement may still run in the database. If no object names the content, it is collected later.
    const isFirst = state.version === undefined;
    if (isFirst)
      await this.#now()
        .context.content.remove(content.ref, [content.version])
        .catch(() => undefined);
    throw error;
  }

  /** Checks that the object still exists. If it was deleted, the client must send it again. */
  async #checkNamed(id: string, state: PartialState): Promise<void> {
    if (await this.#wasNamed(state)) return;
    await this.#partials.remove(id);
    throw GONE;
  }

  /** True if an earlier request has stored a row for the content. */
  async #wasNamed(state: PartialState): Promise<boolean> {
    return state.version !== undefined && isNamed(this.#now().context, state, state.version);
  }

  async #checkOwner(id: string): Promise<void> {
    const state = await this.#partials.state(id);
    if (state.by !== (await this.#caller(state))) throw GONE;
  }

  #answerTo(error: unknown): Answer {
    const { status_code, body } = answerTo(error);
    const { requestId } = this.#now().context.request;
    if (status_code >= 500) this.log.warn({ err: error, requestId }, 'storage request failed');
    return { status_code, body };
  }

  #signature(): string | undefined {
    const { context } = this.#now();
    if (!context.request.path.startsWith(SIGNED_PATH)) return undefined;
    const signature = context.request.incoming.headers['x-signature'];
    if (typeof signature !== 'string') throw accessDenied('The header x-signature is missing');
    return signature;
  }

  async #placement(at: ObjectPlace, upsert: boolean): Promise<Placement> {
    const { context } = this.#now();
    const signature = this.#signature();
    if (signature !== undefined) return signedPlacement(context, at, signature);
    return ownPlacement(context, { bucket: at.bucket, name: at.name }, 'tus.upload.create', upsert);
  }

  /** Another user's token can't open the upload, and neither can a signature for another object. */
  async #caller(at: ObjectPlace): Promise<string> {
    const signature = this.#signature();
    if (signature !== undefined) {
      await signedPlacement(this.#now().context, at, signature);
      return `signed ${keyOf(at)}`;
    }
    const { caller } = this.#now().context.request;
    return `${caller.role} ${subjectOf(caller) ?? ''}`;
  }
}

function closed(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (outgoing.destroyed) resolve();
    else outgoing.once('close', resolve);
  });
}

const descriptionOf = ({ metadata }: PartialState): Description => ({
  mimetype: metadata.contentType ?? 'application/octet-stream',
  cacheControl: metadata.cacheControl ?? 'no-cache',
  userMetadata: metadata.metadata ?? null,
});

interface Answer {
  status_code: number;
  body: string;
}

/** True for errors of the tus server and its stores, whose text is meant for the client. */
const isAnswer = (error: unknown): error is Answer =>
  typeof (error as Answer).status_code === 'number' && typeof (error as Answer).body === 'string';

/** Converts errors to the format of storage's other routes, without details such as paths of files. */
function answerTo(error: unknown): Answer {
  const known = storageError(error);
  if (known instanceof StorageError) return { status_code: known.status, body: known.message };
  return isAnswer(error) ? error : { status_code: 500, body: 'Something went wrong with that request\n' };
}
