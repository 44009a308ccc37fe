/**
 * Runs inside Deno, before the function. In: one line of JSON on standard input. Out: the function, serving at its Unix
 * socket, and two words on standard output, marked with a token that the function can't know. Ends when standard input
 * does.
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
  /** The origin that the gateway's socket stands for, and the path there. */
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
      // Deno sets no LD_PRELOAD and the like for a program that may run none.
    }
  }
}

/**
 * The public URL may be an address of this machine, which is closed to functions: it is reached by a socket instead.
 */
function reachPublicUrl(): void {
  const { createHttpClient } = Deno;
  // Made when it is first needed: making it takes 1.5 ms of a cold start.
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

/** Whatever port a function asks for, it is given its socket; a second server has nowhere to be. */
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
    const given = { path: socket, onListen: onListening, ...(onError && { onError }), ...(signal && { signal }) };
    return native(given, handler);
  };
  Object.defineProperty(Deno, 'serve', { value: serve });
  return state;
}

/** A server at a Unix socket says `http+unix://…`, which no router takes for an address. */
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
    // Not a literal: what is imported dynamically is held to the permissions, files included, and static imports are
    // not.
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
