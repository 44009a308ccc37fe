/**
 * The databases of projects with machines of their own. In: the loop of each machine, and the folder of the socket that
 * leads to its Postgres. Out: that Postgres, as programs of this machine and users reach it.
 */
import type {
  DatabaseAddress,
  DatabaseRequest,
  Databases,
  EngineOutcome,
  EngineProject,
  Usage,
} from '../../../capabilities/index.js';
import { POSTGRES_PORT } from '../software/state/paths.js';
import type { MachineLoop } from './machine-loop.js';

/** The port of pgbouncer, which users connect to. */
const POOLER_PORT = 6543;
const LOOK_AGAIN_MS = 5_000;

export class MachineDatabases implements Databases {
  constructor(
    private readonly loopOf: (ref: string) => MachineLoop | undefined,
    private readonly folderOf: (uid: string) => string,
  ) {}

  /** Throws before the machine has an address. */
  addressOf({ ref, uid }: EngineProject): DatabaseAddress {
    const address = this.loopOf(ref)?.view?.address;
    if (address === undefined) throw new Error(`the machine of ${ref} has no address yet`);
    return { host: this.folderOf(uid), port: POSTGRES_PORT, publicAddress: `${address}:${POOLER_PORT}` };
  }

  async recordedId({ ref }: EngineProject): Promise<string | undefined> {
    return this.loopOf(ref)?.access?.database.recordedId(ref);
  }

  async ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    const server = this.loopOf(request.project.ref)?.access?.database;
    if (server) return server.ensure(request);
    return { state: 'progressing', message: 'waiting for the machine’s Postgres', lookAgainMs: LOOK_AGAIN_MS };
  }

  /** A machine's disk is its only limit. */
  async usage(): Promise<Usage | undefined> {
    return undefined;
  }

  /** The database is deleted with its machine. */
  async remove(): Promise<EngineOutcome> {
    return { state: 'ready', value: undefined };
  }
}
