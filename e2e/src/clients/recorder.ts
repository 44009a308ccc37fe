/**
 * Records which public methods of a client's classes are called. In: a list of the methods of each class, which the
 * compiler checks for completeness, and the clients. Out: the methods that were not called.
 */

/** The public methods of a class by its types. Names with `_` are internal. */
export type MethodsOf<Client> = Exclude<
  { [Name in keyof Client]: Client[Name] extends (...args: never[]) => unknown ? Name : never }[keyof Client],
  `_${string}` | symbol | number
>;

/**
 * `works`: as upstream. `refused`: the feature is absent, and the error says so. `browser`: the method needs a browser,
 * and reports that before it sends a request.
 */
export type Inventory<Client> = Record<MethodsOf<Client>, 'works' | 'refused' | 'browser'>;

export class Recorder {
  readonly #called = new Set<string>();
  readonly #originals = new WeakMap<object, object>();

  /** Keyed by the names of classes, and of objects with methods. */
  constructor(private readonly inventories: Record<string, Record<string, string>>) {}

  /**
   * Returns the same object with its calls recorded. Objects that a call returns are recorded too, if their class is
   * listed.
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
