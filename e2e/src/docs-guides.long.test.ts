/** Runs the commands of the guides, as a reader pastes them, against a platform on one machine that sends mail. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { startMailbox } from '@slipway/api/mail/mailbox.testing.js';
import { freePort } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commandsOf, followPage, needsKubectl, type Page } from './docs-shell.js';
import { kubectlIsThere } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { newPlace, type RunningPlatform, startPlatform } from './platform.js';

const run = promisify(execFile);
const JWT_SECRET = 'the-secret-of-the-project-that-moves-here';
/** The example account of the README. */
const ACCOUNT = { email: 'me@example.com', password: 'a long password' };
const ANN = { email: 'ann@example.com', password: 'a long password' };

let platform: RunningPlatform;
let mailbox: Awaited<ReturnType<typeof startMailbox>>;
let home: string;

test.before(async () => {
  mailbox = await startMailbox();
  home = await mkdtemp(path.join(tmpdir(), 'slipway-guides-'));
  // Postgres's account must enter the restored home.
  await chmod(home, 0o711);
  const smtpUrl = path.join(home, 'smtp-url');
  await writeFile(smtpUrl, mailbox.settings.url);
  platform = await startPlatform(undefined, {
    SLIPWAY_SERVICES_SHARED: 'all',
    // The mail server of the projects listens on this machine.
    SLIPWAY_ALLOWED_NETWORKS: '127.0.0.0/8',
    SLIPWAY_SMTP_URL: smtpUrl,
    SLIPWAY_SMTP_FROM: mailbox.settings.from,
  });
});
test.after(async () => {
  await platform?.remove();
  await mailbox?.close();
  await rm(home, { recursive: true, force: true });
});

const guide = (page: Page, before: () => Promise<Partial<Page>> = async () => ({})) => {
  const runs = needsKubectl(page) && !kubectlIsThere ? test.skip : test;
  runs(`the commands of ${page.page} have the documented effect`, async () =>
    followPage({ ...page, ...(await before()) }, platform, home),
  );
};

guide({
  page: 'docs/guides/watch.md',
  needsReadme: true,
  blocks: [/^\{"ok":true\}\n$/, /first|NAME|shop/],
});

guide({
  page: 'docs/guides/secure.md',
  blocks: [/another host name: 421\n.*content-security-policy: default-src/i],
});

guide({
  page: 'docs/guides/coding-agent.md',
  needsReadme: true,
  blocks: [
    /"slipway-first": \{[\s\S]*"apikey": "eyJ/,
    /tables[\s\S]*"one":1[\s\S]*"isError":true/,
    /^200\n[\s\S]*CREATE[\s\S]*\n200\n$/,
  ],
});

guide({
  page: 'docs/guides/keys.md',
  needsReadme: true,
  blocks: [/rotated: yes\nnew key: 200\nold key, until the next rotation: 200\n/],
});

guide({ page: 'docs/guides/send-mail.md', needsReadme: true, blocks: [/^200\n/, /labeled/, /^200\n$/] }, async () => {
  const { username, password, hostname, port } = new URL(mailbox.settings.url);
  return {
    replace: [
      ['smtp.example.com', hostname],
      ['SMTP_PORT=587', `SMTP_PORT=${port}`],
      ['SMTP_USER=mailer', `SMTP_USER=${username}`],
      [`SMTP_PASS='the password'`, `SMTP_PASS=${password}`],
    ],
  };
});

test('the mails of docs/guides/send-mail.md arrive', async () => {
  await mailbox.next(ACCOUNT.email, 'Set a new password');
});

guide(
  {
    page: 'docs/guides/move-from-supabase.md',
    needsReadme: true,
    passes: 1,
    blocks: [
      /moved to http/,
      /^$/,
      /schema copied\n$/,
      /COPY 1\nCOPY 1\n$/,
      /users copied\n[\s\S]*rows copied\n$/,
      /^\[\{"title":"of Ann, before the move"\}\]ann@example.com\n$/,
    ],
  },
  async () => {
    const old = await oldProject();
    await mkdir(path.join(home, 'move'), { recursive: true });
    await writeFile(path.join(home, 'move/schema.sql'), SCHEMA);
    await writeFile(path.join(home, 'move/data.sql'), DATA);
    return {
      environment: {
        OLD_JWT_SECRET: JWT_SECRET,
        OLD_DB_URL: old.db_url as string,
        OLD_ANON_KEY: old.anon_key as string,
      },
    };
  },
);

/**
 * Creates a project in the state of an existing app: a user with a password. `pg_dump` 15 can't read a server of
 * version 18, so its dump is below.
 */
async function oldProject(): Promise<ProjectView> {
  const owner = await Management.register(platform);
  const { body } = await owner.call<ProjectView>('POST', '/projects', { name: 'old', jwt_secret: JWT_SECRET });
  const project = await owner.untilHealthy(body.id);
  const response = await fetch(`${project.project_url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: project.anon_key as string, 'content-type': 'application/json' },
    body: JSON.stringify(ANN),
  });
  assert.is(response.status, 200, await response.text());
  return project;
}

/** Output of `pg_dump --schema=public --schema-only --no-owner` for the database that moves to Slipway. */
const SCHEMA = `
SET statement_timeout = 0;
SET client_encoding = 'UTF8';
SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA public;
COMMENT ON SCHEMA public IS 'standard public schema';
CREATE TABLE public.notes (
    id bigint NOT NULL,
    title text NOT NULL
);
ALTER TABLE public.notes ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notes_id_seq
);
ALTER TABLE ONLY public.notes ADD CONSTRAINT notes_pkey PRIMARY KEY (id);
CREATE POLICY "read all" ON public.notes FOR SELECT TO anon USING (true);
ALTER TABLE public.notes ENABLE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA public TO anon;
GRANT SELECT ON TABLE public.notes TO anon;
ALTER DEFAULT PRIVILEGES FOR ROLE postgres IN SCHEMA public GRANT ALL ON TABLES TO anon;
`;

/** Output of `pg_dump --schema=public --data-only --no-owner` for the database that moves to Slipway. */
const DATA = `
SELECT pg_catalog.set_config('search_path', '', false);
COPY public.notes (id, title) FROM stdin;
1\tof Ann, before the move
\\.
SELECT pg_catalog.setval('public.notes_id_seq', 1, true);
`;

test('the backup of docs/guides/one-machine.md restores into an empty folder', async () => {
  const place = await newPlace();
  const archive = path.join(home, 'backup.tar.gz');
  const first = await startPlatform(place);
  await fetchJson(`${first.url}/auth/register`, ACCOUNT, 201);
  await first.stop();
  // In a run of tests it is a link to a folder that other platforms write to, and tar fails if a file changes.
  await rm(path.join(place.home, 'cache'), { recursive: true });
  await paste('backup', place.home, archive);
  const restored = { home: path.join(home, 'restored'), port: await freePort(3) };
  await paste('restore', restored.home, archive);
  await first.remove();
  const second = await startPlatform(restored);
  try {
    await fetchJson(`${second.url}/auth/login`, ACCOUNT, 200);
  } finally {
    await second.remove();
  }
});

/** Runs the block with this mark with other paths. The service is the test's platform. */
async function paste(mark: string, folder: string, archive: string): Promise<void> {
  const [code = ''] = commandsOf('docs/guides/one-machine.md', mark);
  assert.ok(code.includes('sudo tar'), code);
  const script = code
    .replaceAll(/^sudo systemctl .*$/gm, '')
    .replaceAll('sudo ', '')
    .replaceAll('/srv/slipway/home', folder)
    .replaceAll('/srv/backup.tar.gz', archive);
  await run('bash', ['-euc', script]);
}

async function fetchJson(url: string, body: object, status: number): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  assert.is(response.status, status, await response.text());
}

test.run();
