import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type RestHarness, startRestHarness, type TestRequest } from './testing.js';

const ANN = '11111111-1111-1111-1111-111111111111';
const BOB = '22222222-2222-2222-2222-222222222222';
const SECRET = 'ANN-ONLY';

const SCHEMA = `
  create table folders (id int primary key, label text);
  create table notes (id int primary key, user_id uuid not null default auth.uid(), secret text, worth int,
    folder_id int references folders, slug text unique);
  create table marks (note_id int references notes, folder_id int references folders, primary key (note_id, folder_id));
  alter table notes enable row level security;
  create policy own on notes to authenticated using (user_id = auth.uid()) with check (user_id = auth.uid());
  insert into folders values (1, 'shared'), (2, 'empty');
  insert into notes values (1, '${ANN}', '${SECRET} one', 1000, 1, 'a'), (2, '${ANN}', '${SECRET} two', 2000, 1, 'b'),
    (3, '${BOB}', 'bob', 5, 1, 'c');
  insert into marks values (1, 1), (2, 1), (3, 1);
  create view careful with (security_invoker = true) as select * from notes;
  create view on_careful with (security_invoker = true) as select * from careful;
  create function all_notes() returns setof notes language sql stable as 'select * from notes';
  create function count_notes() returns bigint language sql stable as 'select count(*) from notes';
  create function notes_in(folders) returns setof notes language sql stable
    as 'select * from notes where folder_id = $1.id';
  create function first_secret(folders) returns text language sql stable
    as 'select min(secret) from notes where folder_id = $1.id';
  create table partly (id int primary key, open text, closed text);
  insert into partly values (1, 'open', '${SECRET}');
  revoke all on partly from anon, authenticated;
  grant select (id, open) on partly to authenticated;
  alter role authenticator set pgrst.db_aggregates_enabled = true;
`;

const test = suite('row-level security');
let rest: RestHarness;
test.before(async () => {
  rest = await startRestHarness(SCHEMA);
});
test.after(() => rest.close());

const bob = (method: string, path: string, options: TestRequest = {}) =>
  rest.ask(method, path, { role: 'authenticated', sub: BOB, ...options });

/** Requests of Bob, and their responses, which contain nothing of Ann's. */
const READS: [why: string, path: string, body: unknown, headers?: Record<string, string>][] = [
  ['rows themselves', '/notes?select=id', [{ id: 3 }]],
  ['rows by their key', '/notes?id=eq.1', []],
  ['a condition that is always true', '/notes?select=id&or=(id.gt.0,secret.not.is.null)', [{ id: 3 }]],
  [
    'rows embedded in a shared one',
    '/folders?select=label,notes!folder_id(id)&id=eq.1',
    [{ label: 'shared', notes: [{ id: 3 }] }],
  ],
  ['a condition on embedded rows', `/folders?select=id,notes!folder_id!inner(id)&notes.secret=like.${SECRET}*`, []],
  ['whether embedded rows are there', `/folders?select=id,notes!folder_id()&notes.worth=gt.999&notes=not.is.null`, []],
  ['rows through a junction', '/folders?select=notes!marks(id)&id=eq.1', [{ notes: [{ id: 3 }] }]],
  [
    'the row a junction refers to',
    '/marks?select=note_id,notes(secret)&order=note_id',
    [
      { note_id: 1, notes: null },
      { note_id: 2, notes: null },
      { note_id: 3, notes: { secret: 'bob' } },
    ],
  ],
  ['rows spread', '/folders?select=...notes!folder_id(secret)&id=eq.1', [{ secret: ['bob'] }]],
  [
    'the order of an embedded column',
    '/marks?select=note_id,notes(id)&order=notes(secret).nullslast&limit=1',
    [{ note_id: 3, notes: { id: 3 } }],
  ],
  ['sums', '/notes?select=worth.sum(),worth.max(),count()', [{ sum: 5, max: 5, count: 1 }]],
  [
    'sums of embedded rows',
    '/folders?select=notes!folder_id(worth.sum(),count())&id=eq.1',
    [{ notes: [{ sum: 5, count: 1 }] }],
  ],
  ['sums of spread rows', '/marks?select=...notes(worth.sum())', [{ sum: 5 }]],
  ['a view with the caller’s rights', '/careful?select=id', [{ id: 3 }]],
  ['a view on such a view', '/on_careful?select=id', [{ id: 3 }]],
  ['such a view embedded', '/folders?select=careful!notes_folder_id_fkey(id)&id=eq.1', [{ careful: [{ id: 3 }] }]],
  ['a function’s rows', '/rpc/all_notes?select=id', [{ id: 3 }]],
  ['a function’s rows, filtered', '/rpc/all_notes?select=id&worth=gt.100', []],
  ['a function’s count', '/rpc/count_notes', 1],
  [
    'what a function’s rows embed',
    '/rpc/all_notes?select=id,folders!folder_id(notes!folder_id(id))',
    [{ id: 3, folders: { notes: [{ id: 3 }] } }],
  ],
  ['a computed relationship', '/folders?select=notes_in(id)&id=eq.1', [{ notes_in: [{ id: 3 }] }]],
  ['a computed field', '/folders?select=first_secret&id=eq.1', [{ first_secret: 'bob' }]],
  ['a computed field in a condition', `/folders?select=id&first_secret=like.${SECRET}*`, []],
];
for (const [why, path, body, headers] of READS)
  test(`rows of others are not revealed by ${why}`, async () => {
    const response = await bob('GET', path, headers ? { headers } : {});
    assert.equal(response.body, body, response.text);
    assert.not.match(response.text, SECRET);
  });

test('exact and estimated counts include only the caller’s rows, also by HEAD and through a join', async () => {
  const count = async (path: string, prefer: string) =>
    (await bob('HEAD', path, { headers: { prefer } })).headers.get('content-range');
  assert.is(await count('/notes', 'count=exact'), '0-0/1');
  assert.is(await count('/notes', 'count=estimated'), '0-0/1');
  assert.is(await count('/careful', 'count=exact'), '0-0/1');
  assert.is(await count(`/folders?select=id,notes!folder_id!inner(id)&notes.worth=gt.999`, 'count=exact'), '*/0');
  assert.is(await count('/rpc/all_notes', 'count=exact'), '0-0/1');
});

test('a planned count is the planner’s estimate under the caller’s policies', async () => {
  await rest.sql('analyze notes');
  const response = await bob('HEAD', '/notes?id=eq.1', { headers: { prefer: 'count=planned' } });
  assert.match(response.headers.get('content-range') ?? '', /^\*\/[01]$/);
});

const WRITES: [why: string, method: string, path: string, body: unknown, prefer: string, answer: [number, unknown]][] =
  [
    [
      'a merge onto it by its key',
      'POST',
      '/notes',
      { id: 1, secret: 'taken', worth: 1 },
      'resolution=merge-duplicates,return=representation',
      [403, '42501'],
    ],
    [
      'a merge onto it by another unique column',
      'POST',
      '/notes?on_conflict=slug',
      { id: 9, slug: 'a', secret: 'taken' },
      'resolution=merge-duplicates,return=representation',
      [403, '42501'],
    ],
    [
      'an insert that ignores duplicates',
      'POST',
      '/notes',
      { id: 1, secret: 'x' },
      'resolution=ignore-duplicates,return=representation',
      [201, []],
    ],
    [
      'PUT',
      'PUT',
      '/notes?id=eq.1',
      { id: 1, user_id: BOB, secret: 'x', worth: 1, folder_id: 1, slug: 'z' },
      'return=representation',
      [403, '42501'],
    ],
    ['an update', 'PATCH', '/notes?id=eq.1', { secret: 'x' }, 'return=representation', [200, []]],
    ['an update of all', 'PATCH', '/notes?id=in.(1,2)', { worth: 0 }, 'return=representation,count=exact', [200, []]],
    ['a deletion', 'DELETE', '/notes?id=lte.2', undefined, 'return=representation', [200, []]],
    ['giving one’s own away', 'PATCH', '/notes?id=eq.3', { user_id: ANN }, 'return=representation', [403, '42501']],
    [
      'an insert in another’s name',
      'POST',
      '/notes',
      { id: 10, user_id: ANN, secret: 'x' },
      'return=minimal',
      [403, '42501'],
    ],
    [
      'a view with the caller’s rights',
      'PATCH',
      '/careful?id=eq.1',
      { secret: 'x' },
      'return=representation',
      [200, []],
    ],
    [
      'a column that may not be read, by a condition',
      'PATCH',
      '/partly?closed=like.A*',
      { open: 'x' },
      'return=minimal',
      [403, '42501'],
    ],
  ];
for (const [why, method, path, body, prefer, [status, answer]] of WRITES)
  test(`another's row is neither changed nor revealed by ${why}`, async () => {
    const before = await rest.sql('select * from notes order by id');
    const response = await bob(method, path, { headers: { prefer }, ...(body === undefined ? {} : { body }) });
    assert.is(response.status, status, response.text);
    assert.equal(typeof answer === 'string' ? response.body.code : response.body, answer);
    assert.not.match(response.text, SECRET);
    assert.equal(await rest.sql('select * from notes order by id'), before);
  });

test('columns without a grant are not revealed by any select, filter, order or csv', async () => {
  for (const path of [
    '/partly',
    '/partly?select=closed',
    '/partly?select=id&closed=like.A*',
    '/partly?select=id&order=closed',
    '/partly?select=closed.max()',
  ]) {
    const response = await bob('GET', path, { headers: { accept: 'text/csv' } });
    assert.equal([response.status, response.body.code], [403, '42501'], path);
  }
  assert.equal((await bob('GET', '/partly?select=id,open')).body, [{ id: 1, open: 'open' }]);
});

test('the caller’s identity can’t be changed by a header, parameter or body', async () => {
  const headers = {
    role: 'service_role',
    'x-role': 'service_role',
    'request.jwt.claims': '{}',
    'x-hasura-role': 'service_role',
  };
  assert.equal((await bob('GET', '/notes?select=id', { headers })).body, [{ id: 3 }]);
  for (const name of ['set_config', 'pg_read_file', 'current_setting']) {
    const response = await bob('POST', `/rpc/${name}`, { body: { a: 'role', b: 'service_role' } });
    assert.equal([response.status, response.body.code], [404, 'PGRST202'], name);
  }
  for (const schema of ['auth', 'pg_catalog', 'extensions'])
    assert.is((await bob('GET', '/users', { headers: { 'accept-profile': schema } })).body.code, 'PGRST106');
});

test('an error for a caller without rights reveals only the missing right', async () => {
  const response = await rest.ask('GET', '/partly?select=closed', { role: 'anon' });
  assert.equal(
    [response.status, response.headers.get('www-authenticate'), response.body.message],
    [401, 'Bearer', 'permission denied for table partly'],
  );
  assert.is((await bob('GET', '/notes', { headers: { accept: 'application/vnd.pgrst.plan+json' } })).status, 406);
});

test.run();
