/**
 * Serves deployments and logs of builds to programs on other machines. In: requests of the platform's programs with the
 * platform's token, and publications, each with the token of one build. Out: the content of the folders. A publication
 * changes nothing that is served: only the platform's programs can take a deployment live.
 *
 * `GET /sites/<site>`, `GET …/usage`, `PUT …/live`, `POST …/kept`, `DELETE …`; below `…/builds/<build>`: `DELETE`,
 * `PUT /deployment`, `GET /log`, `GET /log/bytes`, `PUT /log/<number>-<section>`. `<site>` is the ref of a project, or
 * the name of one of its previews. Logs are those of the project.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import path from 'node:path';
import {
  ConcurrencyLimit,
  ConcurrencyLimitReached,
  dropRest,
  isSameSecret,
  parseJson,
  readBounded,
} from '@slipway/program';
import type { BuildLogs } from '../build-logs.js';
import { checkedName } from '../names.js';
import { type DeploymentLimits, OutputRefused } from '../output.js';
import { refOfSite } from '../preview-names.js';
import type { KeptOutputs, Sites } from '../sites.js';
import { MalformedBody, receiveFrames } from './frames.js';
import { readGrant } from './grants.js';

export interface ContentStoreOptions {
  sites: Sites;
  logs: BuildLogs;
  /** Returns the platform's current token. */
  token(): string;
  now?(): number;
  /** Receives errors that no request caused. */
  onError(error: unknown, ref: string): void;
}

export interface Answer {
  status: number;
  body?: object;
  bytes?: Buffer;
}

/** Maximum bytes of a request's body that writes to a log or lists builds. */
export const MOST_OF_BODY = 256 * 1024;
/** Maximum bytes of one section of a log, whatever limit its writer sends. */
const MOST_OF_SECTION = 32 * 1024 * 1024;
/** Limits of concurrent publications, because each may fill the disk up to the limits of its plan. */
const UPLOADS = { most: 4, ofOne: 1, waiting: 64, waitingOfOne: 1 };
const UPLOAD_MS = 15 * 60_000;
/** Folder of unfinished publications. Its name begins with a dot, so it can't be the folder of a site. */
const INCOMING = '.incoming';

/** Makes the server, and removes unfinished publications of an earlier process. Call it before the server listens. */
export async function contentStoreServer(options: ContentStoreOptions): Promise<Server> {
  await rm(path.join(options.sites.folder, INCOMING), { recursive: true, force: true });
  const store = new ContentStoreServer(options);
  const server = createServer((incoming, outgoing) => void store.answer(incoming, outgoing));
  server.requestTimeout = UPLOAD_MS;
  return server;
}

interface Place {
  /** The ref of a project, or the name of a preview. */
  site: string;
  build: string;
  /** The path after the build, or after the site if there is no build. */
  rest: string;
  query: URLSearchParams;
}

class ContentStoreServer {
  readonly #uploads = new ConcurrencyLimit(UPLOADS);
  /** A site has one writer at a time. */
  readonly #writers = new ConcurrencyLimit({ most: 64, ofOne: 1, waiting: 10_000 });

  constructor(private readonly options: ContentStoreOptions) {}

  async answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const place = placeOf(incoming.url as string);
    const answer = await this.#decide(incoming, place).catch((error: unknown) => this.#failure(error, place));
    if (outgoing.destroyed) return;
    const body = answer.bytes ?? (answer.body ? Buffer.from(JSON.stringify(answer.body)) : Buffer.alloc(0));
    // The unread rest of the body would be parsed as the next request.
    if (!incoming.complete) outgoing.setHeader('connection', 'close');
    outgoing.writeHead(answer.status, { 'content-length': body.length }).write(body);
    await dropRest(incoming);
    outgoing.end();
  }

  async #decide(incoming: IncomingMessage, place: Place | undefined): Promise<Answer> {
    const token = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? '')?.[1] ?? '';
    const method = incoming.method as string;
    if (place && method === 'PUT' && place.rest === 'deployment') return this.#publish(incoming, place, token);
    if (!isSameSecret(token, this.options.token())) return UNAUTHORIZED;
    if (!place) return NOT_FOUND;
    const body = method === 'PUT' || method === 'POST' ? await readBounded(incoming, MOST_OF_BODY, tooLarge) : NOTHING;
    return place.build === '' ? this.#ofSite(method, place, body) : this.#ofBuild(method, place, body);
  }

  async #ofSite(method: string, { site, rest }: Place, body: Buffer): Promise<Answer> {
    const { sites, logs } = this.options;
    switch (`${method} ${rest}`) {
      case 'GET ':
        return { status: 200, body: { live: (await sites.liveId(site)) ?? null } };
      case 'GET usage':
        return { status: 200, body: { bytes: (await sites.bytes(site)) + (await logs.bytes(site)) } };
      case 'PUT live': {
        const { build } = parseJson(body) as { build: string };
        return this.#writers.run(site, async () => {
          if (!(await sites.has(site, build))) return NOT_FOUND;
          await sites.goLive(site, build);
          return DONE;
        });
      }
      case 'POST kept': {
        const { builds, ...outputs } = parseJson(body) as Kept;
        await this.#writers.run(site, () => logs.keepOnly(site, new Set(builds)));
        const alone = (each: string, work: () => Promise<void>) => this.#writers.run(each, work);
        await sites.keepOnly(site, { ...WITHOUT_PREVIEWS, ...outputs }, alone);
        return DONE;
      }
      case 'DELETE ':
        await this.#writers.run(site, async () => {
          await logs.remove(site);
          await sites.remove(site);
        });
        return DONE;
      default:
        return NOT_FOUND;
    }
  }

  async #ofBuild(method: string, place: Place, bytes: Buffer): Promise<Answer> {
    const { sites, logs } = this.options;
    const { site, build, rest, query } = place;
    const ref = refOfSite(site);
    if (method === 'DELETE' && rest === '') {
      await this.#writers.run(site, async () => {
        await logs.clear(ref, build);
        await sites.discard(site, build);
      });
      return DONE;
    }
    if (method === 'GET' && rest === 'log') return { status: 200, body: await logs.sections(ref, build) };
    if (method === 'GET' && rest === 'log/bytes') {
      const most = Math.min(numberIn(query, 'most'), MOST_OF_BODY);
      return { status: 200, bytes: await logs.read(ref, build, numberIn(query, 'at'), most) };
    }
    const [, number, section] = /^log\/(\d{1,3})-([A-Za-z]{1,32})$/.exec(rest) ?? [];
    if (method !== 'PUT' || section === undefined) return NOT_FOUND;
    const piece = { at: numberIn(query, 'at'), bytes, limit: MOST_OF_SECTION };
    await logs.put(ref, build, { number: Number(number), section }, piece);
    return DONE;
  }

  async #publish(incoming: IncomingMessage, { site, build }: Place, token: string): Promise<Answer> {
    const { now = Date.now } = this.options;
    const grant = readGrant(token, this.options.token(), now());
    if (grant?.ref !== site || grant.build !== build) return UNAUTHORIZED;
    return this.#uploads.run(refOfSite(site), () => this.#receive(incoming, site, build, grant.limits));
  }

  async #receive(body: IncomingMessage, site: string, build: string, limits: DeploymentLimits): Promise<Answer> {
    const { sites } = this.options;
    const folder = path.join(sites.folder, INCOMING, randomUUID());
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await receiveFrames(body, folder, limits);
      const published = await this.#writers.run(site, () => sites.publish(site, build, folder, limits));
      return { status: 200, body: published };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  #failure(error: unknown, place: Place | undefined): Answer {
    if (error instanceof OutputRefused) return { status: 422, body: { message: error.message } };
    if (error instanceof ConcurrencyLimitReached) return { status: 503, body: { message: 'too many publications' } };
    if (error instanceof MalformedBody || error instanceof RangeError || error instanceof TooLarge) {
      return { status: 400, body: { message: error.message } };
    }
    this.options.onError(error, place === undefined ? '' : refOfSite(place.site));
    return { status: 500, body: { message: 'the request failed; the log of the store has the reason' } };
  }
}

type Kept = { builds: string[] } & Pick<KeptOutputs, 'deployments'> & Partial<KeptOutputs>;

/** An operator of an earlier release sends none of these. It builds no previews. */
const WITHOUT_PREVIEWS = { previews: [], previewDeployments: 0, written: [] };

class TooLarge extends Error {}
const tooLarge = () => new TooLarge(`the body is larger than ${MOST_OF_BODY} bytes`);
const NOTHING = Buffer.alloc(0);
const DONE: Answer = { status: 204 };
const NOT_FOUND: Answer = { status: 404, body: { message: 'the site, build or route does not exist' } };
const UNAUTHORIZED: Answer = { status: 401, body: { message: 'the token is missing, or is not for this build' } };

/** Returns undefined if the path is not of a site. */
function placeOf(target: string): Place | undefined {
  const url = URL.parse(target, 'http://store');
  if (!url) return undefined;
  const { pathname, searchParams: query } = url;
  const [, site, below = ''] = /^\/sites\/([^/]+)(?:\/(.*))?$/.exec(pathname) ?? [];
  const [, build = '', behind = ''] = /^builds\/([^/]+)(?:\/(.*))?$/.exec(below) ?? [];
  try {
    if (site === undefined) return undefined;
    return { site: checkedName(site), build: build && checkedName(build), rest: build ? behind : below, query };
  } catch {
    return undefined;
  }
}

function numberIn(query: URLSearchParams, name: string): number {
  const value = query.get(name) ?? '';
  if (!/^\d{1,12}$/.test(value)) throw new RangeError(`${name} must be a number of bytes`);
  return Number(value);
}
