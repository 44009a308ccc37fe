/**
 * Finds turns of the platform's programs that used much processor time. In: the programs' logs, and a time. Out: each
 * such turn since then, as text. The siege uses it.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { LONG_TURN_MESSAGE } from '@slipway/program';
import { kubectl } from '../kubectl.js';

/** Reads the lines of every program since a time, and possibly earlier ones. */
export type ReadLogs = (since: Date) => Promise<string>;

export async function longTurnsSince(since: Date, readLogs: ReadLogs): Promise<string[]> {
  const lines = (await readLogs(since)).split('\n').filter((line) => line.includes(`"${LONG_TURN_MESSAGE}"`));
  return lines
    .map((line) => JSON.parse(line) as Record<string, string | number>)
    .filter(({ time }) => Number(time) >= since.getTime())
    .map(({ program, project, operation, processorMs }) =>
      [program, operation, project && `of ${project}`, `${processorMs} ms`].filter(Boolean).join(' '),
    );
}

export const logsOfHome =
  (home: () => string): ReadLogs =>
  async () => {
    const folder = path.join(home(), 'logs');
    const texts = (await readdir(folder)).map((file) => readFile(path.join(folder, file), 'utf8'));
    return (await Promise.all(texts)).join('\n');
  };

export const logsOfPods =
  (kubeconfig: string): ReadLogs =>
  (since) =>
    kubectl(kubeconfig, [
      ...['logs', '-n', SYSTEM_NAMESPACE, '-l', 'app.kubernetes.io/part-of=slipway', '--all-containers'],
      ...['--tail=-1', '--max-log-requests=100', `--since-time=${since.toISOString()}`],
    ]);
