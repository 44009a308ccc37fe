/** Runs nginx over a folder of files, as the peer that serves static files fastest. Optional: found on PATH. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { freePort, until } from '@slipway/testing';

const PLACES = ['/usr/sbin', '/usr/local/sbin'];

export interface Nginx {
  pid: number;
  port: number;
  close(): Promise<void>;
}

/** `searchPath` is a PATH. Resolves to undefined if nginx is not installed. */
export async function startNginx(
  folder: { files: string; own: string },
  searchPath: string,
): Promise<Nginx | undefined> {
  const program = [...searchPath.split(':'), ...PLACES].map((each) => path.join(each, 'nginx')).find(existsSync);
  if (program === undefined) return undefined;
  const port = await freePort();
  await mkdir(folder.own, { recursive: true });
  const configuration = path.join(folder.own, 'nginx.conf');
  await writeFile(configuration, configurationOf(folder, port));
  const child = spawn(program, ['-e', path.join(folder.own, 'error.log'), '-c', configuration], {
    stdio: ['ignore', 2, 2],
  });
  const ended = once(child, 'exit');
  await until(() => fetch(`http://127.0.0.1:${port}/`).then(Boolean, () => false), 'nginx answers', 10_000);
  const close = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  return { pid: child.pid as number, port, close };
}

/** One process, as Slipway's data plane has one thread. */
const configurationOf = ({ files, own }: { files: string; own: string }, port: number) => `
daemon off;
master_process off;
pid ${own}/pid;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  default_type text/plain;
  keepalive_requests 100000000;
  client_body_temp_path ${own}/body;
  proxy_temp_path ${own}/proxy;
  fastcgi_temp_path ${own}/fastcgi;
  uwsgi_temp_path ${own}/uwsgi;
  scgi_temp_path ${own}/scgi;
  server { listen 127.0.0.1:${port}; root ${files}; }
}
`;
