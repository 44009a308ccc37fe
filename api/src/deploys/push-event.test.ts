import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Decision, decide, type PushSettings } from './push-event.js';

const COMMIT = '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1';
const ZEROS = '0'.repeat(40);
const main = { ref: 'refs/heads/main', after: COMMIT };
const github = (event: string) => ({ 'x-github-event': event });
const gitlab = (event: string) => ({ 'x-gitlab-event': event });
const gitea = (event: string) => ({ 'x-github-event': event, 'x-gitea-event': event, 'x-gogs-event': event });

const OFF: PushSettings = { productionBranch: 'main', noPreviews: 'previews are off' };
const COMMIT_OF_MAIN: Decision = { kind: 'build', revision: COMMIT };
const NEWEST: Decision = { kind: 'build' };
const IGNORED = 'ignored';

const CASES: [string, Parameters<typeof decide>[0], Parameters<typeof decide>[1], Decision | typeof IGNORED][] = [
  ['an empty body', {}, undefined, NEWEST],
  ['an object of a script', {}, {}, NEWEST],
  ['an event of another host', { 'x-event-key': 'repo:push' }, { push: { changes: [] } }, NEWEST],
  ['a push without the name of an event', {}, main, COMMIT_OF_MAIN],
  ['a push without a commit', {}, { ref: 'refs/heads/main' }, NEWEST],
  ["GitHub's push", github('push'), main, COMMIT_OF_MAIN],
  ["Gitea's push", gitea('push'), main, COMMIT_OF_MAIN],
  ["Forgejo's push", { 'x-forgejo-event': 'push' }, main, COMMIT_OF_MAIN],
  ["GitLab's push", gitlab('Push Hook'), { object_kind: 'push', ...main }, COMMIT_OF_MAIN],
  [
    'a push of a repository by SHA-256',
    github('push'),
    { ...main, after: COMMIT + COMMIT.slice(16) },
    {
      kind: 'build',
      revision: COMMIT + COMMIT.slice(16),
    },
  ],
  ['a forced push', github('push'), { ...main, forced: true }, COMMIT_OF_MAIN],
  ['a push to another branch', github('push'), { ...main, ref: 'refs/heads/next' }, IGNORED],
  ['a push to a branch whose end is the same', github('push'), { ...main, ref: 'refs/heads/x/main' }, IGNORED],
  ["GitHub's tag", github('push'), { ...main, ref: 'refs/tags/main' }, IGNORED],
  ["GitLab's tag", gitlab('Tag Push Hook'), { ...main, ref: 'refs/tags/v1' }, IGNORED],
  ['a deleted branch', github('push'), { ...main, after: ZEROS, deleted: true }, IGNORED],
  ["a deleted branch of GitLab's", gitlab('Push Hook'), { ...main, after: ZEROS, checkout_sha: null }, IGNORED],
  ['a deleted branch of a repository by SHA-256', gitea('push'), { ...main, after: '0'.repeat(64) }, IGNORED],
  ['a ping', github('ping'), { zen: 'Keep it logically awesome.' }, IGNORED],
  ["a ping of Gitea's, which looks like a push", gitea('ping'), main, IGNORED],
  ["a fork's pull request", github('pull_request'), { ...main, action: 'opened' }, IGNORED],
  ["a fork's merge request", gitlab('Merge Request Hook'), { object_kind: 'merge_request', ...main }, IGNORED],
  ["a push of any project, as GitLab's administrators get it", gitlab('System Hook'), main, IGNORED],
  ['a new branch', github('create'), { ref: 'main', ref_type: 'branch' }, IGNORED],
];

test('the push of a commit to the production branch builds it, and other events build nothing', () => {
  for (const [what, headers, payload, expected] of CASES) {
    const decision = decide(headers, payload, OFF);
    if (expected === IGNORED) assert.equal([what, decision.kind], [what, IGNORED]);
    else assert.equal(decision, expected, what);
  }
});

const next = { ref: 'refs/heads/feature/next', after: COMMIT };

test('a push to another branch builds its preview when previews are on, and its deletion removes it', () => {
  const preview: Decision = { kind: 'preview', branch: 'feature/next' };
  const removal: Decision = { kind: 'removal', branch: 'feature/next' };
  const cases: [string, Parameters<typeof decide>[0], Parameters<typeof decide>[1], Decision | typeof IGNORED][] = [
    ["GitHub's push", github('push'), next, preview],
    ["GitLab's push", gitlab('Push Hook'), { object_kind: 'push', ...next }, preview],
    ['a push without a commit', gitea('push'), { ref: next.ref }, preview],
    ['a push of a malformed commit', github('push'), { ...next, after: `--upload-pack=${COMMIT}` }, preview],
    ['a deleted branch', github('push'), { ...next, after: ZEROS, deleted: true }, removal],
    ["a deleted branch of GitLab's", gitlab('Push Hook'), { ...next, after: ZEROS, checkout_sha: null }, removal],
    ['the production branch', github('push'), main, COMMIT_OF_MAIN],
    ['the deleted production branch', github('push'), { ...main, deleted: true }, IGNORED],
    ['a tag', github('push'), { ...next, ref: 'refs/tags/feature/next' }, IGNORED],
    ['the head of a pull request', github('push'), { ...next, ref: 'refs/pull/1/head' }, IGNORED],
    ['the head of a merge request', gitlab('Push Hook'), { ...next, ref: 'refs/merge-requests/1/head' }, IGNORED],
    ["a fork's pull request", github('pull_request'), { ...next, action: 'opened' }, IGNORED],
    ["a fork's pull request with secrets", github('pull_request_target'), { ...next, action: 'opened' }, IGNORED],
    ["a fork's merge request", gitlab('Merge Request Hook'), { object_kind: 'merge_request', ...next }, IGNORED],
    ['an option of git', github('push'), { ...next, ref: 'refs/heads/--upload-pack=x' }, IGNORED],
    ['no name', github('push'), { ...next, ref: 'refs/heads/' }, IGNORED],
    ['a line break', github('push'), { ...next, ref: 'refs/heads/a\nb' }, IGNORED],
    ['a long name', github('push'), { ...next, ref: `refs/heads/${'b'.repeat(245)}` }, IGNORED],
  ];
  for (const [what, headers, payload, expected] of cases) {
    const decision = decide(headers, payload, { ...OFF, noPreviews: undefined });
    if (expected === IGNORED) assert.equal([what, decision.kind], [what, IGNORED]);
    else assert.equal(decision, expected, what);
  }
  assert.is(decide(github('push'), next, OFF).kind, IGNORED);
});

test('a push without a branch or commit returns 400 with an error that names the field', () => {
  for (const [field, payload] of [
    ['ref', {}],
    ['ref', { ref: 5 }],
    ['ref', { ref: 'main' }],
    ['ref', { ref: ['refs/heads/main'] }],
    ['after', { ...main, after: 5 }],
    ['after', { ...main, after: '' }],
    ['after', { ...main, after: COMMIT.slice(1) }],
    ['after', { ...main, after: `--upload-pack=${COMMIT}` }],
    ['after', { ...main, after: 'main' }],
  ] as const)
    assert.throws(
      () => decide(github('push'), payload, OFF),
      new RegExp(`^${field}: must be`),
      JSON.stringify(payload),
    );
});

test.run();
