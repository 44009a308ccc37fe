/** The four requests that are measured, as supabase-js sends them, and what a right answer is. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { LoadJob } from '../measure/load.js';
import type { RequestTemplate } from '../measure/request-template.js';
import { call, type Project, ROWS_PER_USER, type Session } from './dataset.js';

const COLUMNS = 'id,user_id,title,done,created_at';

export interface Operation {
  name: OperationName;
  expectedStatuses: number[];
  template(project: Project, session: Session): RequestTemplate;
  /** Asks `project` once and throws where the answer is wrong, or what `reader` then finds in the table. */
  verify(project: Project, session: Session, reader?: Project): Promise<void>;
}

export const OPERATION_NAMES = ['select 10 rows', 'select by key', 'insert', 'upsert'] as const;
export type OperationName = (typeof OPERATION_NAMES)[number];

const TEN_ROWS = `/rest/v1/todos?select=${COLUMNS}&done=eq.false&order=created_at.desc&limit=10`;
const byKey = (id: number | string) => `/rest/v1/todos?select=${COLUMNS}&id=eq.${id}`;

const headers = (project: Project, session: Session) => ({
  apikey: project.anonKey,
  authorization: `Bearer ${session.accessToken}`,
});

const read =
  (path: string) =>
  (project: Project, session: Session): RequestTemplate => ({
    method: 'GET',
    path,
    headers: headers(project, session),
    lowest: 1,
    highest: ROWS_PER_USER,
  });

const write =
  (path: string, body: (session: Session) => string, prefer: string) =>
  (project: Project, session: Session): RequestTemplate => ({
    method: 'POST',
    path,
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
      const rows = await call(project, { method: 'GET', path: TEN_ROWS, token: session.accessToken });
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
      const rows = await call(project, { method: 'GET', path: byKey(7), token: session.accessToken });
      expectEqual(
        rows.map(({ id, user_id, title }: Row) => ({ id, user_id, title })),
        [{ id: 7, user_id: session.userId, title: 'Task number 6 of this user' }],
      );
      const others = await call(project, { method: 'GET', path: byKey(ROWS_PER_USER + 1), token: session.accessToken });
      expectEqual(others, []);
    },
  },
  {
    name: 'insert',
    expectedStatuses: [201],
    template: write(
      '/rest/v1/todos',
      ({ userId }) => `{"user_id":"${userId}","title":"New task {unique}","done":true}`,
      'return=minimal',
    ),
    verify: async (project, session, reader = project) => {
      const title = `A task that is inserted once, ${randomUUID()}`;
      const body = { user_id: session.userId, title, done: true };
      await call(project, {
        method: 'POST',
        path: '/rest/v1/todos',
        token: session.accessToken,
        prefer: 'return=minimal',
        body,
      });
      await expectTitles(reader, session, `title=eq.${encodeURIComponent(title)}`, [title]);
    },
  },
  {
    name: 'upsert',
    expectedStatuses: [200, 201],
    template: write(
      '/rest/v1/todos?on_conflict=id',
      ({ userId }) => `{"id":{random},"user_id":"${userId}","title":"Changed task {unique}"}`,
      'return=minimal,resolution=merge-duplicates',
    ),
    verify: async (project, session, reader = project) => {
      const path = '/rest/v1/todos?on_conflict=id';
      const prefer = 'return=minimal,resolution=merge-duplicates';
      for (const title of ['Changed once', 'Changed twice']) {
        const body = { id: 9, user_id: session.userId, title };
        await call(project, { method: 'POST', path, token: session.accessToken, prefer, body });
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

async function expectTitles(project: Project, session: Session, filter: string, titles: string[]): Promise<void> {
  const path = `/rest/v1/todos?select=id,title&${filter}`;
  const rows: Row[] = await call(project, { method: 'GET', path, token: session.accessToken });
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
