/**
 * Tests builds of hostile repositories with hostile settings and commands. Each attack is contained, and the log or the
 * error describes it.
 */
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { BuildFailed, type BuildRequest, missingWall } from './index.js';
import { GitServer, LIMITS, NOTHING_SET, type RecordedBuild, Workshop } from './testing.js';

const MIB = 2 ** 20;
const workshop = new Workshop();
const marker = path.join(workshop.folder, 'marker');
let server: GitServer;
test.before(async () => {
  server = await new GitServer(workshop).listen();
  workshop.repository('plain', { 'index.html': 'plain' });
});
test.after(() => {
  server.close();
  workshop.close();
});
const isSealed = missingWall() === undefined;
if (!isSealed) console.log(`# skipped: this machine cannot isolate builds: ${missingWall()}`);
const sealedTest = isSealed ? test : test.skip;

const attack = (buildCommand: string, changes: Partial<BuildRequest> = {}): Promise<RecordedBuild> =>
  workshop.build({ source: server.source('plain'), settings: { ...NOTHING_SET, buildCommand }, ...changes });

/** Returns the message of the build's failure, which the log must contain too. */
function failureOf(recorded: RecordedBuild): string {
  assert.instance(recorded.error, BuildFailed, recorded.error?.stack ?? `the build succeeded: ${recorded.text}`);
  const { message } = recorded.error as Error;
  assert.ok(recorded.text.includes(message), recorded.text);
  return message;
}

/** Returns the number of processes that have `mark` among their arguments. */
const processesWith = (mark: string) =>
  readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(mark)).length;

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

sealedTest('a build runs at the lowest priority on half of the processors, and can not change that', async () => {
  const report = [
    'nproc',
    'taskset -c -p 0 $$ >/dev/null 2>&1; echo $?',
    'ionice -p $$',
    'ionice -c 2 -n 0 -p $$ >/dev/null 2>&1; echo $?',
    'nice',
    'nice -n -5 nice 2>/dev/null | tail -1',
    'nproc',
  ].join('; ');
  const recorded = await attack(`mkdir -p dist; (${report}) > dist/report.txt`);
  const [processors, moved, disk, raised, priority, lifted, still] = recorded.file('report.txt').trim().split('\n');
  const half = String(Math.max(1, Math.floor(availableParallelism() / 2)));
  assert.equal([processors, disk, priority, lifted, still], [half, 'idle', '19', '19', half]);
  assert.equal([moved, raised], ['1', '1']);
});

sealedTest('a setting with the syntax of an option or a command runs nothing', async () => {
  const touch = `touch ${marker}`;
  const urls = [
    `--upload-pack=${touch}`,
    `-u${touch}`,
    `ext::sh -c '${touch}'`,
    `EXT::sh -c '${touch}'`,
    `file://${workshop.folder}/bare/plain.git`,
    `${workshop.folder}/bare/plain.git`,
    'http://127.0.0.1/plain.git',
    'git://127.0.0.1/plain.git',
    `ssh://-oProxyCommand=${touch}/x`,
    `git@127.0.0.1:$(${touch})`,
    `${server.origin}/plain.git;${touch}`,
    `${server.origin}/$(${touch}).git`,
  ];
  for (const repoUrl of urls) {
    const recorded = await workshop.build({ source: { repoUrl, revision: 'main', submodules: false } });
    assert.is((recorded.error as BuildFailed).step, 'Cloning', repoUrl);
    failureOf(recorded);
  }
  for (const revision of [`--upload-pack=${touch}`, `$(${touch})`, `main;${touch}`, `main\n${touch}`, '`id`', '-']) {
    const recorded = await workshop.build({ source: server.source('plain', revision) });
    assert.is((recorded.error as BuildFailed).step, 'Cloning', revision);
  }
  for (const place of [`$(${touch})`, `;${touch}`, '-x', '../..', '/', '\0', 'a\nb']) {
    for (const setting of ['rootDir', 'outputDir'])
      failureOf(
        await workshop.build({ source: server.source('plain'), settings: { ...NOTHING_SET, [setting]: place } }),
      );
  }
  assert.not.ok(existsSync(marker));
});

sealedTest('hooks, filters, file-system monitors and LFS of a repository do not run in its clone', async () => {
  const hook = `#!/bin/sh\ntouch ${marker}\n`;
  workshop.repository('gadgets', {
    'index.html': 'gadgets',
    'large.bin': 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n',
    '.gitattributes': '*.html filter=evil diff=evil merge=evil\n*.bin filter=lfs\n* export-subst\n',
    '.gitconfig': `[filter "evil"]\n\tsmudge = touch ${marker}\n[core]\n\tfsmonitor = touch ${marker}\n`,
    'hooks/post-checkout': hook,
    '.githooks/post-checkout': hook,
  });
  const recorded = await workshop.build({ source: server.source('gadgets') });
  assert.is(recorded.file('index.html'), 'gadgets');
  assert.match(recorded.file('large.bin'), /^version https/);
  assert.not.ok(existsSync(marker));
});

sealedTest('a build is rejected when its output path leads to or through a link, pipe or device', async () => {
  workshop.repository('links', { 'index.html': '' });
  const tree = path.join(workshop.folder, 'trees/links');
  symlinkSync('/etc', path.join(tree, 'committed'));
  mkdirSync(path.join(tree, 'inner'));
  symlinkSync('../../..', path.join(tree, 'inner/up'));
  workshop.commit('links');
  const outputs = {
    committed: 'leads out of the repository',
    'inner/up': 'leads out of the repository',
    'made/link': 'leads out of the repository',
    loop: 'does not exist',
    pipe: 'is not a folder',
    missing: 'does not exist',
  };
  const buildCommand = 'mkdir made && ln -s /proc/self/root made/link && ln -s loop loop && mkfifo pipe';
  for (const [outputDir, reason] of Object.entries(outputs)) {
    const settings = { ...NOTHING_SET, buildCommand, outputDir };
    const recorded = await workshop.build({ source: server.source('links'), settings });
    assert.ok(failureOf(recorded).includes(reason), `${outputDir}: ${recorded.error?.message}`);
  }
});

sealedTest('a build can connect only to addresses of the internet, in whatever way it tries', async () => {
  let connections = 0;
  const canary = createServer((_, response) => response.end('canary')).on('connection', () => connections++);
  await once(canary.listen(0, '127.0.0.2'), 'listening');
  const { port } = canary.address() as AddressInfo;
  const redirect = createServer((_, response) =>
    response.writeHead(302, { location: `http://127.0.0.2:${port}/` }).end(),
  );
  await once(redirect.listen(0, '127.0.0.1'), 'listening');
  const redirected = `http://127.0.0.1:${(redirect.address() as AddressInfo).port}/`;
  const forbidden = [
    `http://127.0.0.2:${port}/`,
    redirected,
    'http://169.254.169.254/',
    'http://10.0.0.1/',
    'http://[::1]/',
  ];
  const script = `
    const tried = async (name, reach) =>
      console.log(name, await reach().catch(({ cause, code }) => 'failed ' + (cause?.code ?? code)));
    const get = async (url) => (await fetch(url)).text();
    const raw = (port, host) => new Promise((resolve, reject) =>
      require('node:net').connect(port, host, () => resolve('connected')).once('error', reject));
    (async () => {
      for (const url of ${JSON.stringify(forbidden)})
        await tried(url, () => get(url));
      await tried('direct', () => raw(${port}, '127.0.0.2'));
      await tried('outside', () => raw(80, '192.0.2.1'));
    })();`;
  workshop.repository('reaching', { 'index.html': '', 'reach.cjs': script });
  const recorded = await workshop.build({
    source: server.source('reaching'),
    reach: { allowed: ['127.0.0.1/32'] },
    env: { NO_PROXY: '', no_proxy: '' },
    settings: { ...NOTHING_SET, buildCommand: 'node reach.cjs' },
  });
  for (const each of [canary, redirect]) each.close();
  assert.ok(recorded.result, recorded.text);
  assert.is(connections, 0);
  assert.not.match(recorded.text, / canary|connected/);
  assert.match(recorded.text, /^direct failed ECONNREFUSED$/m);
  assert.match(recorded.text, /^outside failed ENETUNREACH$/m);
  for (const target of [`127.0.0.2:${port}`, '169.254.169.254', '10.0.0.1'])
    assert.match(recorded.text, new RegExp(`Slipway refused a connection to ".*${target}`));
});

sealedTest('a build reads no file, variable or socket of the platform or of another project', async () => {
  const secret = 'the-secret-of-the-platform';
  writeFileSync(path.join(workshop.folder, 'secret'), secret, { mode: 0o644 });
  process.env.SLIPWAY_TEST_SECRET = secret;
  await attack('echo the-work-of-another >"$npm_config_cache/mark"', { ref: 'another' });
  const folders = ['/', workshop.folder, '/root', '/var/lib', '/run'].join(' ');
  const look =
    `env; cat /etc/shadow; cat ${workshop.folder}/secret ${process.cwd()}/package.json; ` +
    `cat /proc/*/environ; ls -la ${folders}; grep -rsl the-work-of-another ${workshop.folder}; ` +
    `ls /proc | grep -c '^[0-9]'; find / -xdev -type s; kill -9 -1 || true`;
  const recorded = await attack(look);
  delete process.env.SLIPWAY_TEST_SECRET;
  const found = recorded.text.replaceAll(look, '');
  assert.not.match(found, secret);
  assert.not.match(found, /root:[*!$]|cache-another|\/run\/\S+\.sock|slipway-workspace/);
  assert.match(recorded.text, /shadow: Permission denied|shadow: No such file/);
});

sealedTest('the log has no secret, in whatever way a command prints it', async () => {
  const env = { API_KEY: 'k3y-of-the-tenant', LONG: 'line one of it\nline two of it' };
  const prints = [
    'echo "$API_KEY"',
    'printf %s "$API_KEY" | while IFS= read -rn1 c; do printf %s "$c"; sleep 0.02; done; echo',
    'printf k3y-of- ; printf the-tenant >&2; echo',
    'printf %s "$API_KEY" | base64',
    'echo "$LONG" | tail -n 1',
    'node -p "JSON.stringify(process.env)"',
  ];
  const recorded = await attack(`bash -c '${prints.join('; ').replaceAll("'", `'\\''`)}'`, { env });
  assert.ok(recorded.result, recorded.text);
  const output = (recorded.logs.Building ?? '').split('\n').slice(1).join('\n');
  assert.not.match(output, /k3y-of-the-tenant|line (one|two) of it|azN5LW9m/);
  assert.ok((output.match(/\[redacted\]/g) ?? []).length >= 6, output);
});

sealedTest('a build that forks without end is stopped at its timeout, and other builds run beside it', async () => {
  const bomb = attack('(b() { b | b & }; b) & exec sleep 100', {
    ref: 'bomb',
    limits: { ...LIMITS, processes: 100, milliseconds: 8_000 },
  });
  const neighbour = await attack('echo fine >index.html', { ref: 'neighbour' });
  assert.is(neighbour.file('index.html'), 'fine\n');
  const recorded = await bomb;
  assert.is(failureOf(recorded), 'The build took longer than 8 seconds.');
  await until(() => processesWith('b() { b | b & }') === 0, 'the end of every process');
});

sealedTest('a build is stopped when it fills the disk with one file or with many', async () => {
  const limits = { ...LIMITS, diskBytes: 64 * MIB };
  const one = await attack('yes >large', { limits });
  assert.match(failureOf(one), /exit code \d+|more than 64 MiB of disk/);
  const many = await attack('i=0; while :; do yes | head -c 4m >$i; i=$((i+1)); sleep 0.02; done', { limits });
  assert.match(failureOf(many), /^The step Building was ended, as its files use more than 64 MiB of disk\.$/);
  const inCache = await attack(
    'cd $npm_config_cache; i=0; while :; do yes | head -c 4m >$i; i=$((i+1)); sleep 0.02; done',
    {
      limits,
      ref: 'cache',
    },
  );
  assert.match(failureOf(inCache), /more than 64 MiB of disk/);
});

sealedTest('a build is stopped when it takes all memory in one process or in many', async () => {
  const limits = { ...LIMITS, memoryBytes: 400 * MIB, processMemoryBytes: 2048 * MIB };
  const fill = `globalThis.kept = []; setInterval(() => kept.push(Buffer.alloc(${20 * MIB}, 1)), 20)`;
  const recorded = await attack(`for i in 1 2 3; do node -e '${fill}' & done; wait`, { limits });
  assert.is(failureOf(recorded), 'The step Building was ended, as its processes used more than 400 MiB of memory.');
});

sealedTest(
  'a build that prints a gigabyte has a bounded log, and a build that sleeps ends at its timeout',
  async () => {
    const limits = { ...LIMITS, logBytes: MIB };
    const recorded = await attack('yes 0123456789abcdef | head -c 1000000000; echo printed >index.html', { limits });
    assert.is(recorded.file('index.html'), 'printed\n');
    assert.ok(recorded.text.length < MIB + 1000 && recorded.text.length > MIB - 1000, String(recorded.text.length));
    assert.match(recorded.text, /The log ends here: it reached its limit of 1048576 bytes\.\n$/);
    const begin = performance.now();
    const asleep = await attack('trap "" TERM INT HUP; sleep 1000; sleep 1000', {
      limits: { ...LIMITS, milliseconds: 4_000 },
    });
    assert.is(failureOf(asleep), 'The build took longer than 4 seconds.');
    assert.ok(performance.now() - begin < 8_000);
  },
);

sealedTest('a build has no capabilities, and no kernel interface that builds do not need', async () => {
  const recorded = await attack(
    'id -u; grep ^Cap /proc/self/status; unshare --user true; mount -t tmpfs none /mnt; ' +
      'node -e "process.setuid(0)"; true',
  );
  assert.ok(recorded.result, recorded.text);
  assert.equal(
    (recorded.text.match(/^Cap...:\s+(\d+)$/gm) ?? []).map((line) => Number(line.split('\t')[1])),
    [0, 0, 0, 0, 0],
  );
  assert.match(recorded.text, /unshare: unshare failed: Operation not permitted/);
});

test.run();
