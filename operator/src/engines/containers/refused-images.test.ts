/** Tests which Dockerfiles and images are refused. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { refuseDockerfile, refuseImage } from './refused-images.js';

const OLD = '1.28.2';

test('a Dockerfile with ordinary steps and caches is accepted', () => {
  const lines = [
    'FROM node:24 AS build',
    'RUN --mount=type=cache,target=/root/.npm npm ci',
    'RUN --mount=type=cache,id=npm,target=/root/.npm --mount=type=tmpfs,target=/tmp npm run build',
    'RUN --mount=type=bind,source=package.json,target=package.json npm ls',
    '# RUN --mount=type=bind,from=build,target=/x ls',
    'COPY --from=build /app /app',
  ];
  refuseDockerfile(lines.join('\n'), OLD);
});

for (const [what, text] of Object.entries({
  'a bind mount from another image': 'RUN --mount=type=bind,from=build,source=/,target=/x,rw ls',
  'a mount of the usual type from another image': 'RUN --mount=from=build,target=/x ls',
  'a cache from another image': 'run --MOUNT=type=cache,From=build,target=/x ls',
  'a cache outside of the folder of caches': 'RUN --mount=type=cache,id=../../../etc,target=/x ls',
  'a source outside of the context': 'RUN --mount=type=bind,source=../x,target=/x ls',
  'a second mount': 'RUN --mount=type=tmpfs,target=/t --mount=type=bind,from=x,target=/x ls',
  'a mount after other options': 'RUN --network=none --mount=type=bind,from=x,target=/x ls',
  'a mount on several lines': 'RUN \\\n  --mount=type=bind,\\\nfrom=x,target=/x ls',
  'an option on several lines': 'RUN --mo\\\nunt=type=bind,from=x,target=/x ls',
  'a comment between the lines': 'RUN \\\n# no\n --mount=type=bind,fr\\ \n# no\nom=x,target=/x ls',
  'another character of escape': '# escape=`\nRUN --mount=type=bind,fr`\nom=x,target=/x ls',
  'a mount by a variable': 'ARG M=from=x\nRUN --mount=type=bind,$M,target=/x ls',
  quotes: 'RUN --mount=type=bind,"from=x",target=/x ls',
  'a trigger': 'ONBUILD RUN --mount=type=bind,from=x,target=/x ls',
  'lines of Windows': 'RUN \\\r\n--mount=type=bind,from=x,target=/x ls',
})) {
  test(`${what} is refused for a builder with known holes, and not for a mended one`, () => {
    assert.throws(() => refuseDockerfile(`FROM x\n${text}`, OLD), /known hole/);
    assert.throws(() => refuseDockerfile(`FROM x\n${text}`, '1.38.0'), /known hole/);
    for (const version of ['1.38.1', '1.39.0', '2.0.0-dev']) refuseDockerfile(`FROM x\n${text}`, version);
  });
}

test('a version that is no version counts as one with holes', () => {
  assert.throws(() => refuseDockerfile('RUN --mount=from=x,target=/x ls', ''), /known hole/);
  assert.throws(() => refuseDockerfile('RUN --mount=from=x,target=/x ls', 'x.y'), /known hole/);
});

test('a Dockerfile of a mebibyte is refused, as its end may hide an option', () => {
  assert.throws(() => refuseDockerfile(' '.repeat(2 ** 20), '2.0.0'), /larger than 1 MiB/);
});

test('an image with labels or annotations of podman is refused', () => {
  refuseImage({ labels: { 'io.buildah.version': '1', 'org.opencontainers.image.title': 'x' }, annotations: null });
  for (const name of [
    'io.podman.annotations.checkpoint.name',
    'IO.Podman.annotations.seccomp',
    'io.containers.capabilities',
    'org.criu.checkpoint.container.name',
    'io.kubernetes.cri-o.annotations.checkpoint.name',
  ]) {
    assert.throws(() => refuseImage({ labels: { [name]: 'x' }, annotations: {} }), /has the label/);
    assert.throws(() => refuseImage({ labels: null, annotations: { [name]: 'x' } }), /has the annotation/);
  }
});

test.run();
