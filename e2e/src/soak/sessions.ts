/** Signs people up, and refreshes their sessions. Out: users and sessions that must exist afterwards. */
import { oneOf } from '../random.js';
import type { App } from './app.js';
import { Kept } from './kept.js';
import { type Part, Wrong } from './load.js';

/**
 * Share of sign-ups in the requests. It is small, because a password needs a hash, which occupies a core for a while.
 */
const SIGN_UPS = 0.15;
const PAGE = 1000;

interface Session {
  app: App;
  email: string;
  /** The last received token. It still works if the response with a newer one was lost. */
  refreshToken: string;
}

export class Sessions implements Part {
  readonly #apps: readonly App[];
  readonly #random: () => number;
  readonly #users = new Map<string, Kept>();
  readonly #sessions: Session[] = [];
  #count = 0;

  constructor(apps: readonly App[], random: () => number) {
    this.#apps = apps;
    this.#random = random;
    for (const { ref } of apps) this.#users.set(ref, new Kept());
  }

  async step(): Promise<void> {
    if (this.#sessions.length === 0 || this.#random() < SIGN_UPS) await this.#signUp(oneOf(this.#random, this.#apps));
    else await this.#refresh(oneOf(this.#random, this.#sessions));
  }

  async #signUp(app: App): Promise<void> {
    const email = `person-${++this.#count}@example.com`;
    const kept = this.#users.get(app.ref) as Kept;
    await kept.attempt(email, email, async () => {
      const { data, error } = await app.stranger.auth.signUp({ email, password: `a long password of ${email}` });
      if (error) throw error;
      if (!data.session) throw new Wrong(`${email} signed up and has no session`);
      this.#sessions.push({ app, email, refreshToken: data.session.refresh_token });
    });
  }

  async #refresh(session: Session): Promise<void> {
    const { app, email, refreshToken } = session;
    const { data, error } = await app.stranger.auth.refreshSession({ refresh_token: refreshToken });
    if (error) throw error;
    if (data.user?.email !== email) throw new Wrong(`the session of ${email} became one of ${data.user?.email}`);
    session.refreshToken = data.session?.refresh_token as string;
  }

  async lost(): Promise<string[]> {
    const users = await Promise.all(this.#apps.map((app) => this.#lostUsers(app)));
    const sessions: string[] = [];
    for (const session of this.#sessions) {
      await this.#refresh(session).catch((error: Error) =>
        sessions.push(`the session of ${session.email} is lost: ${error.message}`),
      );
    }
    return [...users.flat(), ...sessions];
  }

  async #lostUsers({ ref, service }: App): Promise<string[]> {
    const found = new Set<string>();
    for (let page = 1; ; page++) {
      const { data, error } = await service.auth.admin.listUsers({ page, perPage: PAGE });
      if (error) throw error;
      for (const { email } of data.users) found.add(email as string);
      if (data.users.length < PAGE) break;
    }
    const kept = this.#users.get(ref) as Kept;
    return kept.names.flatMap((email) => kept.problem(email, found.has(email) ? email : undefined) ?? []);
  }

  get summary(): string {
    return `${this.#count} sign-ups, ${this.#sessions.length} sessions`;
  }
}
