/** The measured requests, as supabase-js sends them, with the check of a correct response. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { LoadJob } from '../measure/load.js';
import type { RequestTemplate } from '../measure/request-template.js';
import {
  ALBUMS_PER_USER,
  call,
  type Project,
  ROWS_PER_USER,
  type Session,
  TRACKS_PER_ALBUM,
  trackTitle,
} from './dataset.js';

const COLUMNS = 'id,user_id,title,done,created_at';

export interface Operation {
  name: OperationName;
  expectedStatuses: number[];
  template(project: Project, session: Session): RequestTemplate;
  /** Sends the request to `project` once. Throws if the response is wrong, or the table as `reader` then sees it. */
  verify(project: Project, session: Session, reader?: Project): Promise<void>;
}

export const OPERATION_NAMES = ['select 10 rows', 'select by key', 'to-many embed', 'insert', 'upsert'] as const;
export type OperationName = (typeof OPERATION_NAMES)[number];

const TEN_ROWS = `/todos?select=${COLUMNS}&done=eq.false&order=created_at.desc&limit=10`;
const byKey = (id: number | string) => `/todos?select=${COLUMNS}&id=eq.${id}`;
const TEN_ALBUMS = '/albums?select=id,title,tracks(id,title,place)&order=id.desc&limit=10';

const headers = (project: Project, session: Session) => ({
  apikey: project.anonKey,
  authorization: `Bearer ${session.accessToken}`,
});

const read =
  (path: string) =>
  (project: Project, session: Session): RequestTemplate => ({
    method: 'GET',
    path: project.restPath + path,
    headers: headers(project, session),
    lowest: 1,
    highest: ROWS_PER_USER,
  });

const write =
  (path: string, body: (session: Session) => string, prefer: string) =>
  (project: Project, session: Session): RequestTemplate => ({
    method: 'POST',
    path: project.restPath + path,
    headers: { ...headers(project, session), 'content-type': 'application/json', prefer },
    body: body(session),
    lowest: 1,
    highest: ROWS_PER_USER,
  });

export const OPERATIONS: Operation[] = [
  {
    name: 'select 10 rows',
    expectedStatuses: [200],
    template: read(TEN_ROWS),
    verify: async (project, session) => {
      const rows = await get(project, session, TEN_ROWS);
      const ids = Array.from({ length: 10 }, (_, index) => ROWS_PER_USER - 2 * index);
      expectEqual(
        rows.map((row: { id: number }) => row.id),
        ids,
      );
      expectEqual(new Set(rows.map((row: { user_id: string }) => row.user_id)), new Set([session.userId]));
      expectEqual(Object.keys(rows[0]).sort(), COLUMNS.split(',').sort());
    },
  },
  {
    name: 'select by key',
    expectedStatuses: [200],
    template: read(byKey('{random}')),
    verify: async (project, session) => {
      const rows: Row[] = await get(project, session, byKey(7));
      expectEqual(
        rows.map(({ id, user_id, title }) => ({ id, user_id, title })),
        [{ id: 7, user_id: session.userId, title: 'Task number 6 of this user' }],
      );
      expectEqual(await get(project, session, byKey(ROWS_PER_USER + 1)), []);
    },
  },
  {
    name: 'to-many embed',
    expectedStatuses: [200],
    template: read(TEN_ALBUMS),
    verify: async (project, session) => {
      const albums: Album[] = await get(project, session, TEN_ALBUMS);
      const shown = albums.map(({ id, title, tracks }) => ({
        id,
        title,
        tracks: tracks.map(withoutId).sort(byPlace),
      }));
      expectEqual(
        shown,
        Array.from({ length: 10 }, (_, index) => albumOf(ALBUMS_PER_USER - index)),
      );
    },
  },
  {
    name: 'insert',
    expectedStatuses: [201],
    template: write(
      '/todos',
      ({ userId }) => `{"user_id":"${userId}","title":"New task {unique}","done":true}`,
      'return=minimal',
    ),
    verify: async (project, session, reader = project) => {
      const title = `A task that is inserted once, ${randomUUID()}`;
      const body = { user_id: session.userId, title, done: true };
      await post(project, session, '/todos', 'return=minimal', body);
      await expectTitles(reader, session, `title=eq.${encodeURIComponent(title)}`, [title]);
    },
  },
  {
    name: 'upsert',
    expectedStatuses: [200, 201],
    template: write(
      '/todos?on_conflict=id',
      ({ userId }) => `{"id":{random},"user_id":"${userId}","title":"Changed task {unique}"}`,
      'return=minimal,resolution=merge-duplicates',
    ),
    verify: async (project, session, reader = project) => {
      const prefer = 'return=minimal,resolution=merge-duplicates';
      for (const title of ['Changed once', 'Changed twice']) {
        const body = { id: 9, user_id: session.userId, title };
        await post(project, session, '/todos?on_conflict=id', prefer, body);
        await expectTitles(reader, session, 'id=eq.9', [title]);
      }
    },
  },
];

interface Row {
  id: number;
  user_id: string;
  title: string;
}

interface Track {
  title: string;
  place: number;
}

interface Album {
  id: number;
  title: string;
  tracks: (Track & { id: number })[];
}

const withoutId = ({ title, place }: Track): Track => ({ title, place });
const byPlace = (a: Track, b: Track) => a.place - b.place;

const albumOf = (id: number) => ({
  id,
  title: `Album ${id}`,
  tracks: Array.from({ length: TRACKS_PER_ALBUM }, (_, index) => ({
    title: trackTitle(id, index + 1),
    place: index + 1,
  })),
});

const get = (project: Project, { accessToken: token }: Session, path: string) =>
  call(project, { method: 'GET', path: project.restPath + path, token });

const post = (project: Project, { accessToken: token }: Session, path: string, prefer: string, body: unknown) =>
  call(project, { method: 'POST', path: project.restPath + path, token, prefer, body });

async function expectTitles(project: Project, session: Session, filter: string, titles: string[]): Promise<void> {
  const rows: Row[] = await get(project, session, `/todos?select=id,title&${filter}`);
  expectEqual(
    rows.map((row) => row.title),
    titles,
  );
}

function expectEqual(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) {
    throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`);
  }
}

export function loadJob(operation: Operation, project: Project, session: Session): LoadJob {
  return {
    baseUrl: project.baseUrl,
    scenario: { kind: 'template', template: operation.template(project, session) },
    expectedStatuses: operation.expectedStatuses,
  };
}
