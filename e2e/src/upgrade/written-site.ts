/**
 * The frontend project of an upgrade's state: a repository that was built, and the live site. `writeSite` needs a
 * machine that can build. `checkSite` builds nothing, because the git server is unavailable by then.
 */
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { until } from '@slipway/testing';
import * as assert from 'uvu/assert';
import { type BuildView, buildsOf, createSite, deploy } from '../deploys.js';
import type { Management, ProjectView } from '../management.js';
import { requestSite } from '../site-request.js';

export interface WrittenSite extends Pick<ProjectView, 'id' | 'ref' | 'webhook_secret'> {
  buildId: number;
}

const GIT_TOKEN = 'token-of-the-owner';
const PAGES = { 'index.html': 'a page from before', 'docs/index.html': 'a page in a folder' };

/** Starts a git server with one repository. Returns also the environment of a platform that may build from it. */
export async function startRepositories() {
  const workshop = new Workshop();
  workshop.repository('site', PAGES);
  const server = await new GitServer(workshop, GIT_TOKEN).listen();
  return {
    url: `${server.origin}/site.git`,
    environment: server.settings,
    close: () => {
      server.close();
      workshop.close();
    },
  };
}

export async function writeSite(person: Management, repository: string): Promise<WrittenSite> {
  const source = { repo_url: repository, github_token: GIT_TOKEN };
  const { id, ref, webhook_secret, project_url } = await createSite(person, 'site-one', source);
  await deploy(person, { id });
  const build = await until(
    () => liveBuild(person, id),
    (found) => found !== undefined,
  );
  await untilServed(project_url);
  return { id, ref, webhook_secret, buildId: build?.id as number };
}

export async function checkSite(person: Management, written: WrittenSite): Promise<void> {
  const found = await person.untilHealthy(written.id);
  assert.is(found.ref, written.ref);
  assert.is(found.webhook_secret, written.webhook_secret);
  await untilServed(found.project_url);
  assert.is((await liveBuild(person, written.id))?.id, written.buildId);
  const log = await person.call('GET', `/projects/${written.id}/builds/${written.buildId}`);
  assert.is(log.status, 200, JSON.stringify(log.body));
}

async function liveBuild(person: Management, projectId: number): Promise<BuildView | undefined> {
  const builds = await buildsOf(person, { id: projectId });
  const failed = builds.find(({ phase }) => phase === 'Failed');
  assert.not(failed, failed?.message);
  return builds.find(({ live }) => live);
}

async function untilServed(siteUrl: string): Promise<void> {
  for (const [path, text] of [
    ['/', PAGES['index.html']],
    ['/docs/', PAGES['docs/index.html']],
  ] as const)
    await until(
      () => requestSite(siteUrl, path),
      ({ body }) => body === text,
    );
}
