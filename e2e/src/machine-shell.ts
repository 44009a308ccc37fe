/** A shell of root on the machine of a dedicated project, with the operator's own key, for tests. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Project } from '@slipway/crds';
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { KubeClient, loadKubeConfig, type Secret } from '@slipway/kubernetes';
import type { ProjectView } from './management.js';
import type { RunningPlatform } from './platform.js';

const run = promisify(execFile);
const MOST_BYTES = 16 * 2 ** 20;

export interface MachineShell {
  address: string;
  /** The values of the machine's Secret. */
  record: Record<string, string>;
  /** Runs the script as root. Resolves with its output, also if it fails. */
  sh(script: string): Promise<string>;
  close(): void;
}

export async function openShell({ kubeconfig }: RunningPlatform, { ref }: ProjectView): Promise<MachineShell> {
  const client = await KubeClient.connect(await loadKubeConfig(kubeconfig));
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-shell-'));
  try {
    const project = await client.get<Project>(`/apis/slipway.dev/v1alpha1/projects/${ref}`);
    const { data = {} } = await client.get<Secret>(
      `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets/machine.${project.metadata.uid}`,
    );
    const record = Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    );
    const key = path.join(folder, 'key');
    writeFileSync(key, record.sshPrivateKey ?? '', { mode: 0o600 });
    const address = project.status?.server?.address as string;
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', 'BatchMode=yes'];
    const args = ['-i', key, ...options.flatMap((option) => ['-o', option]), `root@${address}`];
    return {
      address,
      record,
      sh: async (script) => {
        const work = run('ssh', [...args, script], { maxBuffer: MOST_BYTES, timeout: 120_000 });
        const { stdout, stderr } = await work.catch((error: { stdout: string; stderr: string }) => error);
        return `${stdout}${stderr}`.trim();
      },
      close: () => rmSync(folder, { recursive: true, force: true }),
    };
  } finally {
    await client.close();
  }
}
