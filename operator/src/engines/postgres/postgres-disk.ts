/**
 * Detects that only the reserve is free on the disk of a Postgres server. In: a superuser's sessions, and the size of
 * the server's volume. Without that size, the server's data folder is on this machine. Called by DatabaseSizes.
 */
import { statfs } from 'node:fs/promises';
import { diskReserveOf } from '@slipway/installation';
import type { Session } from '@slipway/project-database';

/** Free space, as a multiple of the reserve, from which the disk no longer counts as low. */
const ENOUGH_ROOM = 1.25;

export class PostgresDisk {
  #folder: string | undefined;
  #isLow = false;

  constructor(
    private readonly session: Session,
    private readonly volumeBytes: number | undefined,
  ) {}

  /** `databaseBytes`: the size of all databases of the server together. */
  async isLow(databaseBytes: number): Promise<boolean> {
    const { free, total } = await (this.volumeBytes === undefined
      ? this.#onThisMachine()
      : this.#ofVolume(this.volumeBytes, databaseBytes));
    this.#isLow = free < diskReserveOf(total) * (this.#isLow ? ENOUGH_ROOM : 1);
    return this.#isLow;
  }

  async #onThisMachine(): Promise<{ free: number; total: number }> {
    this.#folder ??= await this.#dataFolder();
    const { bavail, bsize, blocks } = await statfs(this.#folder);
    return { free: bavail * bsize, total: blocks * bsize };
  }

  async #dataFolder(): Promise<string> {
    const { rows } = await this.session.query(`SELECT current_setting('data_directory') AS folder`);
    return String(rows[0]?.folder);
  }

  /**
   * Estimates the free space: Postgres can't read the size of its file system. Databases, log and temporary files are
   * the files that fill it.
   */
  async #ofVolume(total: number, databaseBytes: number): Promise<{ free: number; total: number }> {
    const { rows } = await this.session.query(`
      SELECT (SELECT coalesce(sum(size), 0) FROM pg_ls_waldir())
        + (SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir()) AS bytes`);
    return { free: total - databaseBytes - Number(rows[0]?.bytes), total };
  }
}
