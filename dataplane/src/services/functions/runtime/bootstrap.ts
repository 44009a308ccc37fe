/**
 * Runs inside Deno, before the function. In: one line of JSON on standard input. Out: the function, serving at its Unix
 * socket, and status lines on standard output, marked with a token that the function can't know. Ends when standard
 * input closes.
 */
interface Conn {
  read(buffer: Uint8Array): Promise<number | null>;
}
type Handler = (request: Request, info: unknown) => Response | Promise<Response>;
interface ServeOptions {
  handler?: Handler;
  onListen?: (address: { transport: string; hostname: string; port: number }) => void;
  onError?: (error: unknown) => Response | Promise<Response>;
  signal?: AbortSignal;
}
interface DenoNamespace {
  stdin: Conn;
  stdout: { writeSync(bytes: Uint8Array): number };
  env: { set(name: string, value: string): void; delete(name: string): void; toObject(): Record<string, string> };
  exit(code: number): never;
  serve(options: ServeOptions & { path: string }, handler: Handler): unknown;
  createHttpClient(options: object): object;
}
declare const Deno: DenoNamespace;

interface Configuration {
  token: string;
  socket: string;
  gateway: string;
  /** Origin and path to which the gateway's socket maps. */
  publicPlace: { origin: string; path: string };
  entry: string;
  environment: Record<string, string>;
}

const configuration = await readConfiguration();
const { token, socket, gateway, publicPlace, entry, environment } = configuration;
const stdout = Deno.stdout;
const encoder = new TextEncoder();
const { origin: publicOrigin } = publicPlace;
const say = (word: string) => void stdout.writeSync(encoder.encode(`\n${token} ${word}\n`));
void endWithParent();
giveEnvironment();
reachPublicUrl();
showPublicUrl();
const serving = takeOverServe();
await begin();

async function readConfiguration(): Promise<Configuration> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65_536);
  let text = '';
  while (!text.includes('\n')) {
    const count = await Deno.stdin.read(buffer);
    if (count === null) Deno.exit(0);
    text += decoder.decode(buffer.subarray(0, count), { stream: true });
  }
  return JSON.parse(text) as Configuration;
}

async function endWithParent(): Promise<void> {
  const buffer = new Uint8Array(64);
  const { stdin, exit } = Deno;
  while ((await stdin.read(buffer)) !== null);
  exit(0);
}

function giveEnvironment(): void {
  for (const name of Object.keys(Deno.env.toObject())) Deno.env.delete(name);
  for (const [name, value] of Object.entries(environment)) {
    try {
      Deno.env.set(name, value);
    } catch {
      // Deno passes no LD_PRELOAD and the like to a program without the permission to run others.
    }
  }
}

/**
 * Fetches the public URL through a socket, because it may be an address of this machine, which is denied to functions.
 */
function reachPublicUrl(): void {
  const { createHttpClient } = Deno;
  // The client is created on first use, because that takes 1.5 ms of a cold start.
  let client: object | undefined;
  const native = globalThis.fetch;
  const inside = (url: string) => `http://slipway.invalid${publicPlace.path}${url.slice(publicOrigin.length)}`;
  const isPublic = (url: string) => url === publicOrigin || url.startsWith(`${publicOrigin}/`);
  globalThis.fetch = ((input: Request | URL | string, init?: RequestInit) => {
    const request = input instanceof Request;
    const url = request ? input.url : new URL(String(input)).href;
    if (!isPublic(url)) return native(input, init);
    client ??= createHttpClient({ proxy: { transport: 'unix', path: gateway } });
    const target = request ? new Request(inside(url), input) : inside(url);
    return native(target, { ...init, client } as RequestInit);
  }) as typeof fetch;
  Object.assign(globalThis, { EdgeRuntime: { waitUntil: (work: Promise<unknown>) => void work.catch(console.error) } });
}

/** Serves at the isolate's socket, whatever port the function names. A second server is an error. */
function takeOverServe(): { begun: boolean } {
  const state = { begun: false };
  const native = Deno.serve;
  const serve = (first: ServeOptions | Handler, second?: Handler) => {
    const options = typeof first === 'function' ? {} : first;
    const handler = typeof first === 'function' ? first : (second ?? first.handler);
    if (typeof handler !== 'function') throw new TypeError('Deno.serve needs a handler');
    if (state.begun) throw new Error('a function has one server: Deno.serve was called before');
    state.begun = true;
    const { onError, onListen, signal } = options;
    const onListening = () => {
      say('serves');
      onListen?.({ transport: 'tcp', hostname: '0.0.0.0', port: 8000 });
    };
    const listening = { path: socket, onListen: onListening, ...(onError && { onError }), ...(signal && { signal }) };
    return native(listening, handler);
  };
  Object.defineProperty(Deno, 'serve', { value: serve });
  return state;
}

/** Gives requests an `http` URL: a server at a Unix socket reports `http+unix://…`, which routers can't parse. */
function showPublicUrl(): void {
  const native = Object.getOwnPropertyDescriptor(Request.prototype, 'url')?.get as (this: Request) => string;
  function get(this: Request): string {
    const url = native.call(this);
    return url.startsWith('http+unix:') ? publicOrigin + url.slice(url.indexOf('/', 'http+unix://'.length)) : url;
  }
  Object.defineProperty(Request.prototype, 'url', { get, configurable: true, enumerable: true });
}

async function begin(): Promise<void> {
  try {
    // Not a literal, because permissions apply to dynamic imports, including those of files, and not to static ones.
    const module = (await import(entry)) as { default?: { fetch?: Handler } };
    const handler = module.default?.fetch;
    if (!serving.begun && typeof handler === 'function') {
      (Deno.serve as unknown as (handler: Handler) => void)((request, info) => handler(request, info));
    }
    if (!serving.begun)
      throw new Error('the function serves nothing: call Deno.serve(handler), or export default { fetch }');
  } catch (error) {
    console.error(error);
    say('failed');
  }
}
