/** Uploads in parts by the TUS protocol, as tus-js-client and Uppy speak it to Supabase: rules and rights as of any upload. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { Server, type Upload } from '@tus/server';
import { DatabaseError } from '../sql/pool.js';
import type { FileStore } from './content/files.js';
import { subjectOf } from './database.js';
import { accessDenied, invalidRequest, StorageError, storageError } from './errors.js';
import type { Exchange } from './exchange.js';
import { checkedBucket, checkedName, keyOf, type ObjectPlace } from './names.js';
import { type PartialState, PartialUploads } from './partial-uploads.js';
import { allowedBytes, mayPlace, newContent, ownPlacement, type Placement, place } from './placing.js';
import { signedPlacement, userMetadata } from './upload.js';

const PATH = '/upload/resumable';
const SIGNED_PATH = `${PATH}/sign`;

interface Current {
  exchange: Exchange;
  beginning: Omit<PartialState, 'size' | 'metadata' | 'created'> | undefined;
}

export class Resumable {
  readonly #current = new AsyncLocalStorage<Current>();
  readonly #partials: PartialUploads;
  readonly #server: Server;

  constructor(files: FileStore, openUploads: number) {
    this.#partials = new PartialUploads(files.folder, openUploads, () => {
      const { exchange, beginning } = this.#now();
      return { ref: exchange.request.tenant.ref, beginning };
    });
    this.#server = new Server({
      path: PATH,
      datastore: this.#partials,
      namingFunction: () => randomUUID(),
      generateUrl: (_, { id }) => `${this.#address()}/${id}`,
      getFileIdFromRequest: (_, last) => last,
      maxSize: async (_, id) =>
        (id ? (await this.#partials.state(id).catch(() => undefined))?.limit : undefined) ??
        this.#now().exchange.limits.fileBytes,
      onIncomingRequest: (request, id) => (request.method === 'POST' ? Promise.resolve() : this.#checkOwner(id)),
      onUploadCreate: (_, upload) => this.#begin(upload),
      onUploadFinish: (_, upload) => this.#finish(upload),
      onResponseError: (_, error) => said(error),
    });
  }

  isAt = (path: string) => path === PATH || path.startsWith(`${PATH}/`);

  handle(exchange: Exchange): Promise<void> {
    const { incoming, outgoing } = exchange.request;
    const handle = () =>
      this.#current.run({ exchange, beginning: undefined }, () =>
        // Of a client that went away the server may wait for ever: an answer without a body never finishes on a dead connection.
        Promise.race([this.#server.handle(incoming, outgoing), closed(outgoing)]),
      );
    const sends = incoming.method === 'PATCH' || incoming.method === 'POST';
    return sends ? exchange.uploads.receive(exchange.request, handle) : handle();
  }

  #now(): Current {
    return this.#current.getStore() as Current;
  }

  /** Of uploads, as the client wrote it: whichever way it came, it finds back. */
  #address(): string {
    const [address = ''] = (this.#now().exchange.request.incoming.url ?? '').split('?', 1);
    return address.replace(/\/+$/, '');
  }

  async #begin(upload: Upload): Promise<{ metadata: Record<string, string | null> }> {
    const now = this.#now();
    const { exchange } = now;
    const { bucketName, objectName, contentType, cacheControl, metadata } = upload.metadata ?? {};
    const at = { bucket: checkedBucket(bucketName), name: checkedName(objectName) };
    const upsert = exchange.request.incoming.headers['x-upsert'] === 'true';
    const placement = await this.#placement(at, upsert);
    const mimetype = contentType || 'application/octet-stream';
    if (!/^[\t\x20-\x7e]{1,255}$/.test(mimetype)) throw invalidRequest('contentType must be a MIME type');
    const rules = await mayPlace(exchange, placement, { mimetype });
    const limit = allowedBytes(exchange, rules, mimetype, upload.size);
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

  async #finish(upload: Upload): Promise<object> {
    const { exchange } = this.#now();
    const state = await this.#partials.state(upload.id);
    const placement = await this.#placement(state, state.upsert);
    const content = newContent(exchange);
    const file = this.#partials.file(upload.id);
    const { size } = await stat(file);
    await exchange.content.adopt(content, file);
    await this.#partials.remove(upload.id);
    await place(exchange, placement, content, size, {
      mimetype: state.metadata.contentType ?? 'application/octet-stream',
      cacheControl: state.metadata.cacheControl ?? 'no-cache',
      userMetadata: state.metadata.metadata ?? null,
    });
    return {};
  }

  async #checkOwner(id: string): Promise<void> {
    const state = await this.#partials.state(id);
    if (state.by !== (await this.#caller(state)))
      throw { status_code: 404, body: 'The file for this url was not found\n' };
  }

  #signature(): string | undefined {
    const { exchange } = this.#now();
    if (!exchange.request.path.startsWith(SIGNED_PATH)) return undefined;
    const signature = exchange.request.incoming.headers['x-signature'];
    if (typeof signature !== 'string') throw accessDenied('The header x-signature is missing');
    return signature;
  }

  async #placement(at: ObjectPlace, upsert: boolean): Promise<Placement> {
    const { exchange } = this.#now();
    const signature = this.#signature();
    if (signature !== undefined) return signedPlacement(exchange, at, signature);
    return ownPlacement(exchange, { bucket: at.bucket, name: at.name }, 'tus.upload.create', upsert);
  }

  /** A stranger's token doesn't open another's upload, nor does a signature for another object. */
  async #caller(at: ObjectPlace): Promise<string> {
    const signature = this.#signature();
    if (signature !== undefined) {
      await signedPlacement(this.#now().exchange, at, signature);
      return `signed ${keyOf(at)}`;
    }
    const { caller } = this.#now().exchange.request;
    return `${caller.role} ${subjectOf(caller) ?? ''}`;
  }
}

function closed(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (outgoing.destroyed) resolve();
    else outgoing.once('close', resolve);
  });
}

function said(error: unknown): { status_code: number; body: string } | undefined {
  const known = error instanceof StorageError || error instanceof DatabaseError ? storageError(error) : undefined;
  return known instanceof StorageError ? { status_code: known.status, body: known.message } : undefined;
}
