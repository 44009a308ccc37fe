/** The ways to the Postgres, the functions and the logs of one machine: sockets here that lead there over SSH. */
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { machineFunctionsSocket, machineLogsSocket } from '@slipway/installation';
import type { Logger } from 'pino';
import { FunctionControl } from '../../function-control.js';
import { DatabaseServer } from '../../postgres/server.js';

import { POSTGRES_PORT, POSTGRES_SOCKET, runtimeFolder } from '../software/state/paths.js';
import { SocketForward } from '../ssh/socket-forward.js';
import type { SshClient } from '../ssh/ssh-client.js';
import { LogSocket } from './log-socket.js';
import type { MachineRecord } from './record.js';

export interface MachineAccess {
  readonly database: DatabaseServer;
  readonly functions: FunctionControl;
  close(): Promise<void>;
}

export interface AccessOptions {
  ssh: SshClient;
  record: MachineRecord;
  /** The folder of the sockets. Its path has at most 80 bytes. */
  folder: string;
  replicationPassword(): Promise<string>;
  onChange(): void;
  log: Logger;
}

const SUPERUSER = 'slipway';
const SOCKET = `.s.PGSQL.${POSTGRES_PORT}`;
/** The largest result of `/query` is 8 MiB, but one value in Postgres may be larger. */
const MOST_OF_POSTGRES = 64 * 1024 * 1024;
/** The path that `project-services.ts` sets. */
const FUNCTIONS_CONTROL = `${runtimeFolder('functions')}/control.sock`;

export async function openAccess(options: AccessOptions): Promise<MachineAccess> {
  const { ssh, record, folder, replicationPassword, onChange, log } = options;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const socketPath = machineFunctionsSocket(folder);
  const forwards = [
    await SocketForward.open(ssh, {
      local: path.join(folder, SOCKET),
      remote: `${POSTGRES_SOCKET}/${SOCKET}`,
      mostPerAnswer: MOST_OF_POSTGRES,
    }),
    await SocketForward.open(ssh, { local: socketPath, remote: FUNCTIONS_CONTROL }),
  ];
  const logs = await LogSocket.open(ssh, { path: machineLogsSocket(folder), log });
  const password = encodeURIComponent(record.superuserPassword);
  const place = `host=${encodeURIComponent(folder)}&port=${POSTGRES_PORT}`;
  const adminUrl = `postgresql://${SUPERUSER}:${password}@/postgres?${place}`;
  const database = new DatabaseServer({ adminUrl, spares: 0, ofOne: true, replicationPassword, onChange, log });
  const functions = new FunctionControl({ socketPath });
  return {
    database,
    functions,
    close: async () => {
      await Promise.all([database.close(), functions.close()]);
      await Promise.all([logs, ...forwards].map((socket) => socket.close()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
