/**
 * Which public methods of a client's classes a walk has called. In: a list of them for each class, which the compiler
 * holds to be whole, and the clients as the walk uses them. Out: the methods that nobody called.
 */

/** The public methods of a class by its types: names with `_` are internal. */
export type MethodsOf<Client> = Exclude<
  { [Name in keyof Client]: Client[Name] extends (...args: never[]) => unknown ? Name : never }[keyof Client],
  `_${string}` | symbol | number
>;

/**
 * `works`: as upstream; `refused`: what is absent here says so; `browser`: needs one, and says so before it asks the
 * server.
 */
export type Inventory<Client> = Record<MethodsOf<Client>, 'works' | 'refused' | 'browser'>;

export class Recorder {
  readonly #called = new Set<string>();
  readonly #originals = new WeakMap<object, object>();

  /** By the names of classes, and of objects with methods of their own. */
  constructor(private readonly inventories: Record<string, Record<string, string>>) {}

  /**
   * The same object, whose calls are noted, and so are those of what it gives where that is of a class that is listed.
   */
  watch<Client extends object>(client: Client, name = client.constructor.name): Client {
    const watched: Client = new Proxy(client, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== 'function' || typeof property === 'symbol') return value;
        return (...args: unknown[]) => {
          this.#called.add(`${name}.${property}`);
          const given = args.map((arg) => this.#originals.get(arg as object) ?? arg);
          const result: unknown = Reflect.apply(value, target, given);
          return result === target ? watched : this.#watchedIfListed(result);
        };
      },
    });
    this.#originals.set(watched, client);
    return watched;
  }

  uncalled(): string[] {
    const listed = Object.entries(this.inventories).flatMap(([name, methods]) =>
      Object.keys(methods).map((method) => `${name}.${method}`),
    );
    return listed.filter((method) => !this.#called.has(method));
  }

  #watchedIfListed(result: unknown): unknown {
    const isListed = typeof result === 'object' && result !== null && result.constructor?.name in this.inventories;
    return isListed ? this.watch(result) : result;
  }
}
