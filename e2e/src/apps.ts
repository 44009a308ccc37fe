/** Repositories of apps for tests. No image can be pulled here, so they contain this machine's Node. */
import path from 'node:path';
import type { Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { copyPrograms } from '@slipway/operator/machine-programs.js';

const DOCKERFILE = `FROM scratch
COPY base /
COPY app.js /
CMD ["${process.execPath}", "/app.js"]
`;

/** An app that responds with its variables and the headers of the request, as JSON. */
export const ECHO = `
const { createServer } = require('node:http');
const server = createServer((request, response) => {
  const { PORT, WORD } = process.env;
  const { method, url, headers } = request;
  response.end(JSON.stringify({ version: 1, PORT, WORD, method, url, headers }));
});
server.listen(process.env.PORT);
process.on('SIGTERM', () => server.close(() => process.exit(0)));
`;

/** Makes a repository with a Dockerfile, and returns its commit. */
export async function appRepository(
  workshop: Workshop,
  name: string,
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const tree = path.join(workshop.folder, 'trees', name);
  workshop.repository(name, { Dockerfile: DOCKERFILE, ...files });
  workshop.git(tree, 'config', 'core.compression', '0');
  await copyPrograms(path.join(tree, 'base'), [process.execPath]);
  return workshop.commit(name);
}
