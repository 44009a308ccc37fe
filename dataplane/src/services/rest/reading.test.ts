import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type RestHarness, startRestHarness } from './testing.js';

const SCHEMA = `
  create table clients (id int primary key, name text);
  create table projects (id int primary key, name text, client_id int references clients, budget numeric, meta jsonb,
    started date);
  create table people (id int primary key, name text, boss int references people, born date);
  create table works_on (person_id int references people, project_id int references projects, hours int,
    primary key (person_id, project_id));
  create table passports (person_id int primary key references people, number text);
  create table sites (id int primary key, main_project int constraint main_project references projects,
    other_project int references projects);
  insert into clients values (1, 'Acme'), (2, 'Bolt'), (3, 'Cube');
  insert into projects values (1, 'One', 1, 100, '{"a":{"b":[1,2]},"k":"x","n":3}', '2020-01-01'),
    (2, 'Two', 1, 50, '{"k":"y","n":1}', '2021-01-01'),
    (3, 'Three', 2, 25.5, null, null), (4, 'Four', null, null, '{"k":null}', null);
  insert into people values (1, 'Ann', null, '1980-01-01'), (2, 'Bob', 1, '1990-01-01'), (3, 'Cy', 1, null);
  insert into works_on values (1, 1, 5), (1, 2, 3), (2, 1, 2), (3, 3, 9);
  insert into passports values (1, 'P1'), (2, 'P2');
  insert into sites values (1, 1, 2);
  create view projects_view as select id, name as title, client_id as customer, budget from projects;
  create view people_view as select id as person, name, boss as chief from people;
  create view deep_view as select title, customer from projects_view;
  create view works_view as select person_id, project_id, hours from works_on;
  create view joined_view as select p.id, p.name, c.name as client from projects p join clients c on c.id = p.client_id;
  create function shout(people) returns text language sql stable as $$ select upper($1.name) $$;
  create function colleagues(people) returns setof people language sql stable as
    $$ select * from people p where p.boss = $1.boss and p.id <> $1.id $$;
  create function main_client(projects) returns setof clients rows 1 language sql stable
    as $$ select * from clients where id = $1.client_id $$;
  create function clients(people) returns setof clients language sql stable
    as $$ select * from clients where id = $1.id $$;
  create function all_projects() returns setof projects language sql stable as 'select * from projects';
  create domain colour as int;
  create function colour_to_json(colour) returns json language sql immutable
    as $$ select to_json('#' || lpad(to_hex($1::int), 6, '0')) $$;
  create function colour_from_json(json) returns colour language sql immutable
    as $$ select ('x' || lpad(ltrim($1 #>> '{}', '#'), 8, '0'))::bit(32)::int $$;
  create function colour_from_text(text) returns colour language sql immutable
    as $$ select ('x' || lpad(ltrim($1, '#'), 8, '0'))::bit(32)::int $$;
  create cast (colour as json) with function colour_to_json(colour) as implicit;
  create cast (json as colour) with function colour_from_json(json) as implicit;
  create cast (text as colour) with function colour_from_text(text) as implicit;
  create table flags (id int, "on" boolean);
  insert into flags values (1, true), (2, false), (3, null);
  create table paints (id int primary key, shade colour);
  insert into paints values (1, 255), (2, 65280);
`;

const test = suite('reading');
let rest: RestHarness;
test.before(async () => {
  rest = await startRestHarness(SCHEMA);
  await rest.sql('alter role authenticator set pgrst.db_aggregates_enabled = true');
});
test.after(() => rest.close());

type Case = [path: string, body: unknown];
const cases = (what: string, list: Case[]) => {
  for (const [path, body] of list)
    test(`${what}: ${path}`, async () => {
      for (let i = 0; i < 2; i++) assert.equal((await rest.ask('GET', path)).body, body);
    });
};

cases('aggregates', [
  ['/projects?select=count()', [{ count: 4 }]],
  ['/projects?select=n:count()', [{ n: 4 }]],
  ['/projects?select=count()::text', [{ count: '4' }]],
  ['/projects?select=budget.sum()', [{ sum: 175.5 }]],
  [
    '/projects?select=budget.avg()::int,budget.min(),budget.max(),budget.count()',
    [{ avg: 59, min: 25.5, max: 100, count: 3 }],
  ],
  [
    '/projects?select=client_id,count(),total:budget.sum()&order=client_id.nullsfirst',
    [
      { client_id: null, count: 1, total: null },
      { client_id: 1, count: 2, total: 150 },
      { client_id: 2, count: 1, total: 25.5 },
    ],
  ],
  ['/projects?select=meta->n::int.sum()', [{ sum: 4 }]],
  ['/projects?select=s:meta->>n::int.sum()::text', [{ s: '4' }]],
  [
    '/projects?select=key:meta->>k,count()&meta->>k=not.is.null&order=meta->>k',
    [
      { key: 'x', count: 1 },
      { key: 'y', count: 1 },
    ],
  ],
  ['/rpc/all_projects?select=id.max()', [{ max: 4 }]],
  [
    '/clients?select=name,projects(budget.sum(),count())&order=id',
    [
      { name: 'Acme', projects: [{ sum: 150, count: 2 }] },
      { name: 'Bolt', projects: [{ sum: 25.5, count: 1 }] },
      { name: 'Cube', projects: [{ sum: null, count: 0 }] },
    ],
  ],
  [
    '/projects?select=count(),clients(name)&client_id=not.is.null&order=clients(name)',
    [
      { count: 2, clients: { name: 'Acme' } },
      { count: 1, clients: { name: 'Bolt' } },
    ],
  ],
  [
    '/works_on?select=hours.sum(),...projects(name)&order=projects(name)',
    [
      { sum: 7, name: 'One' },
      { sum: 9, name: 'Three' },
      { sum: 3, name: 'Two' },
    ],
  ],
  ['/works_on?select=...projects(budget.sum())', [{ sum: 275.5 }]],
  [
    '/works_on?select=...people(person:name),...projects(spent:budget.sum()::text)&order=people(name)',
    [
      { person: 'Ann', spent: '150' },
      { person: 'Bob', spent: '100' },
      { person: 'Cy', spent: '25.5' },
    ],
  ],
  [
    '/works_on?select=hours.sum(),...projects(...clients(client:name))&order=projects(id)',
    [
      { sum: 7, client: 'Acme' },
      { sum: 3, client: 'Acme' },
      { sum: 9, client: 'Bolt' },
    ],
  ],
  ['/works_on?select=...projects(...clients(id.max()))', [{ max: 2 }]],
  ['/clients?select=projects(count)&id=eq.1', [{ projects: [{ count: 2 }] }]],
]);

cases('spreads', [
  [
    '/projects?select=id,...clients(client:name)&id=gte.3&order=id',
    [
      { id: 3, client: 'Bolt' },
      { id: 4, client: null },
    ],
  ],
  [
    '/works_on?select=hours,...projects(name,...clients(client:name))&person_id=eq.3',
    [{ hours: 9, name: 'Three', client: 'Bolt' }],
  ],
  [
    '/people?select=name,passport:passports(number),...passports(number)&id=eq.1',
    [{ name: 'Ann', passport: { number: 'P1' }, number: 'P1' }],
  ],
  [
    '/clients?select=name,...projects(titles:name,budget)&projects.order=id&order=id',
    [
      { name: 'Acme', titles: ['One', 'Two'], budget: [100, 50] },
      { name: 'Bolt', titles: ['Three'], budget: [25.5] },
      { name: 'Cube', titles: [], budget: [] },
    ],
  ],
  [
    '/people?select=name,...projects!works_on(on:name)&projects.order=name&id=eq.1',
    [{ name: 'Ann', on: ['One', 'Two'] }],
  ],
  ['/clients?select=name,...projects(id,...works_on(hours))&id=eq.2', [{ name: 'Bolt', id: [3], hours: [[9]] }]],
  ['/clients?select=name,...projects!inner(ids:id)&projects.id=eq.3', [{ name: 'Bolt', ids: [3] }]],
  ['/clients?select=name,...projects(ids:id)&projects=is.null', [{ name: 'Cube', ids: [] }]],
  ['/projects?select=id,...clients(client:name)&clients=is.null', [{ id: 4, client: null }]],
  [
    '/clients?select=...projects(*)&id=eq.2',
    [{ id: [3], name: ['Three'], client_id: [2], budget: [25.5], meta: [null], started: [null] }],
  ],
  ['/projects?select=id,..clients(client:name)&id=eq.1', [{ id: 1, client: 'Acme' }]],
  [
    '/projects?select=id,...clients(client:name)&order=clients(name).desc.nullslast,id&limit=2',
    [
      { id: 3, client: 'Bolt' },
      { id: 1, client: 'Acme' },
    ],
  ],
]);

cases('relationships of views', [
  ['/projects_view?select=title,clients(name)&id=eq.1', [{ title: 'One', clients: { name: 'Acme' } }]],
  ['/clients?select=name,projects_view(title)&id=eq.2', [{ name: 'Bolt', projects_view: [{ title: 'Three' }] }]],
  ['/deep_view?select=title,clients(name)&title=eq.Three', [{ title: 'Three', clients: { name: 'Bolt' } }]],
  [
    '/projects_view?select=title,people_view!works_view(name)&id=eq.3',
    [{ title: 'Three', people_view: [{ name: 'Cy' }] }],
  ],
  [
    '/people_view?select=name,works_view(hours,projects_view(title))&person=eq.3',
    [{ name: 'Cy', works_view: [{ hours: 9, projects_view: { title: 'Three' } }] }],
  ],
  [
    '/people_view?select=name,people_view(name)&person=eq.1&people_view.order=name',
    [{ name: 'Ann', people_view: [{ name: 'Bob' }, { name: 'Cy' }] }],
  ],
  ['/joined_view?select=client,works_on(hours)&id=eq.3', [{ client: 'Bolt', works_on: [{ hours: 9 }] }]],
]);

cases('computed fields and relationships', [
  ['/people?select=name,shout&shout=eq.ANN', [{ name: 'Ann', shout: 'ANN' }]],
  ['/people?select=name&order=shout.desc&limit=1', [{ name: 'Cy' }]],
  [
    '/people?select=name,colleagues(name)&order=id',
    [
      { name: 'Ann', colleagues: [] },
      { name: 'Bob', colleagues: [{ name: 'Cy' }] },
      { name: 'Cy', colleagues: [{ name: 'Bob' }] },
    ],
  ],
  ['/people?select=name,colleagues!inner(n:name)&colleagues.name=eq.Bob', [{ name: 'Cy', colleagues: [{ n: 'Bob' }] }]],
  [
    '/projects?select=id,main_client(name)&id=in.(3,4)&order=id',
    [
      { id: 3, main_client: { name: 'Bolt' } },
      { id: 4, main_client: null },
    ],
  ],
  ['/projects?select=id,...main_client(client:name)&id=eq.1', [{ id: 1, client: 'Acme' }]],
  ['/people?select=name,clients(name)&id=eq.2', [{ name: 'Bob', clients: [{ name: 'Bolt' }] }]],
  [
    '/projects?select=id,main_client(name)&order=main_client(name).desc.nullslast&limit=1',
    [{ id: 3, main_client: { name: 'Bolt' } }],
  ],
]);

cases('embedding', [
  [
    '/people?select=name,passports(number)&order=id',
    [
      { name: 'Ann', passports: { number: 'P1' } },
      { name: 'Bob', passports: { number: 'P2' } },
      { name: 'Cy', passports: null },
    ],
  ],
  [
    '/people?select=name,people(name)&id=eq.1&people.order=name.desc',
    [{ name: 'Ann', people: [{ name: 'Cy' }, { name: 'Bob' }] }],
  ],
  [
    '/people?select=name,team:people!boss(name)&id=eq.1&team.limit=1&team.order=id',
    [{ name: 'Ann', team: [{ name: 'Bob' }] }],
  ],
  ['/people?select=name,boss(name)&id=eq.2', [{ name: 'Bob', boss: { name: 'Ann' } }]],
  [
    '/people?select=name,projects!works_on(name)&id=eq.1&projects.order=id',
    [{ name: 'Ann', projects: [{ name: 'One' }, { name: 'Two' }] }],
  ],
  ['/people?select=name,projects!works_on(name)&id=eq.3', [{ name: 'Cy', projects: [{ name: 'Three' }] }]],
  [
    '/sites?select=main:projects!main_project(name),other:projects!sites_other_project_fkey(name)',
    [{ main: { name: 'One' }, other: { name: 'Two' } }],
  ],
  [
    '/sites?select=main_project(name),other_project(name)',
    [{ main_project: { name: 'One' }, other_project: { name: 'Two' } }],
  ],
  [
    '/clients?select=name,projects(name)&projects.or=(budget.gt.60,name.eq.Three)&id=lt.3&order=id',
    [
      { name: 'Acme', projects: [{ name: 'One' }] },
      { name: 'Bolt', projects: [{ name: 'Three' }] },
    ],
  ],
  [
    '/clients?select=name,projects(name,works_on(hours))&projects.works_on.hours=gt.4&projects.id=eq.1&id=eq.1',
    [{ name: 'Acme', projects: [{ name: 'One', works_on: [{ hours: 5 }] }] }],
  ],
  [
    '/clients?select=name,projects!inner(works_on!inner(hours))&projects.works_on.hours=eq.9',
    [{ name: 'Bolt', projects: [{ works_on: [{ hours: 9 }] }] }],
  ],
  ['/clients?select=name&projects=is.null&select=name,projects()', [{ name: 'Cube' }]],
  ['/clients?select=name,projects()&or=(projects.is.null,name.eq.Acme)&order=id', [{ name: 'Acme' }, { name: 'Cube' }]],
  [
    '/clients?select=name,projects(name)&projects=not.is.null&projects.budget=lt.30',
    [{ name: 'Bolt', projects: [{ name: 'Three' }] }],
  ],
  [
    '/projects?select=name,c:clients(n:name)&order=c(name).desc.nullslast,name&limit=2',
    [
      { name: 'Three', c: { n: 'Bolt' } },
      { name: 'One', c: { n: 'Acme' } },
    ],
  ],
  [
    '/rpc/all_projects?select=name,clients(name),works_on(hours)&id=eq.3',
    [{ name: 'Three', clients: { name: 'Bolt' }, works_on: [{ hours: 9 }] }],
  ],
]);

cases('json paths', [
  ['/projects?select=meta->a->b->>1,meta->>k&id=eq.1', [{ b: '2', k: 'x' }]],
  ['/projects?select=id&meta->a->b->0=eq.1', [{ id: 1 }]],
  ['/projects?select=id&order=meta->>k.desc.nullslast&limit=2', [{ id: 2 }, { id: 1 }]],
  ['/projects?select=id&meta->n=gt.2', [{ id: 1 }]],
  ['/projects?select=id,meta->n::text&meta->>n=eq.1', [{ id: 2, n: '1' }]],
]);

cases('domain representations', [
  [
    '/paints?order=id',
    [
      { id: 1, shade: '#0000ff' },
      { id: 2, shade: '#00ff00' },
    ],
  ],
  ['/paints?select=shade&shade=eq.%230000ff', [{ shade: '#0000ff' }]],
  ['/paints?select=id&shade=in.(%2300ff00,%23123456)', [{ id: 2 }]],
]);

test('domain representations: values of a body are parsed by the domain’s function', async () => {
  const made = await rest.ask('POST', '/paints', {
    body: { id: 3, shade: '#0000aa' },
    headers: { prefer: 'return=representation' },
  });
  assert.equal([made.status, made.body], [201, [{ id: 3, shade: '#0000aa' }]]);
  assert.equal(await rest.sql('select shade::int as n from paints where id = 3'), [{ n: 170 }]);
  assert.is((await rest.ask('PATCH', '/paints?id=eq.3', { body: { shade: '#000001' } })).status, 204);
  assert.equal(await rest.sql('select shade::int as n from paints where id = 3'), [{ n: 1 }]);
  await rest.sql('delete from paints where id = 3');
});

test('a written row is returned with its computed fields and relationships', async () => {
  const made = await rest.ask('POST', '/people?select=shout,colleagues(name),boss(name)', {
    body: { id: 9, name: 'Dee', boss: 1 },
    headers: { prefer: 'return=representation' },
  });
  assert.equal(made.body, [{ shout: 'DEE', colleagues: [{ name: 'Bob' }, { name: 'Cy' }], boss: { name: 'Ann' } }]);
  await rest.sql('delete from people where id = 9');
});

cases('every is, and isdistinct', [
  ['/projects?select=id&client_id=is.null', [{ id: 4 }]],
  ['/projects?select=id&client_id=is.not_null&order=id&limit=1', [{ id: 1 }]],
  ['/projects?select=id&client_id=not.is.null&order=id&limit=1', [{ id: 1 }]],
  ['/flags?select=id&on=is.true', [{ id: 1 }]],
  ['/flags?select=id&on=is.FALSE', [{ id: 2 }]],
  ['/flags?select=id&on=is.unknown', [{ id: 3 }]],
  ['/flags?select=id&on=not.is.unknown&order=id', [{ id: 1 }, { id: 2 }]],
  ['/projects?select=id&client_id=isdistinct.1&order=id', [{ id: 3 }, { id: 4 }]],
]);

// an aggregated embed has no order of its own
const REFUSED: [path: string, status: number, code: string, message: string][] = [
  ['/projects?select=id,clients(id.max())&order=clients(name)', 400, 'PGRST127', 'Feature not implemented'],
  ['/clients?select=name,...projects(budget.sum())', 400, 'PGRST127', 'Feature not implemented'],
  [
    '/clients?select=nothing(id)',
    400,
    'PGRST200',
    "Could not find a relationship between 'clients' and 'nothing' in the schema cache",
  ],
  [
    '/people?select=people!people_boss_fkey(name)',
    400,
    'PGRST200',
    "Could not find a relationship between 'people' and 'people' in the schema cache",
  ],
  [
    '/sites?select=projects(id)',
    300,
    'PGRST201',
    "Could not embed because more than one relationship was found for 'sites' and 'projects'",
  ],
  ['/clients?select=projects(id)&order=projects(id)', 400, 'PGRST118', "A related order on 'projects' is not possible"],
  ['/clients?select=id&projects.id=eq.1', 400, 'PGRST108', "'projects' is not an embedded resource in this request"],
  [
    '/clients?select=id,projects(id)&projects=eq.1',
    400,
    'PGRST120',
    "Bad operator on the 'projects' embedded resource",
  ],
  ['/clients?select=id,name.sum', 400, 'PGRST100', ''],
  ['/clients?select=name,id.sum(),projects(id)&order=nope', 400, '42703', 'column clients.nope does not exist'],
];
for (const [path, status, code, message] of REFUSED)
  test(`${path} is rejected with ${status} ${code}`, async () => {
    const response = await rest.ask('GET', path);
    assert.equal([response.status, response.body.code], [status, code], response.text);
    if (message !== '') assert.is(response.body.message, message);
  });

test('an ambiguous embed is rejected with the possible relationships', async () => {
  const { body } = await rest.ask('GET', '/sites?select=projects(id)');
  assert.equal(body.details, [
    {
      cardinality: 'many-to-one',
      embedding: 'sites with projects',
      relationship: 'main_project using sites(main_project) and projects(id)',
    },
    {
      cardinality: 'many-to-one',
      embedding: 'sites with projects',
      relationship: 'sites_other_project_fkey using sites(other_project) and projects(id)',
    },
  ]);
  assert.is(
    body.hint,
    "Try changing 'projects' to one of the following: 'projects!main_project', " +
      "'projects!sites_other_project_fkey'. Find the desired relationship in the 'details' key.",
  );
});

test('aggregates are rejected until the owner allows them, and a reload applies a changed setting', async () => {
  const sum = () => rest.ask('GET', '/projects?select=budget.sum()');
  assert.is((await sum()).status, 200);
  const settled = async (status: number) => {
    for (let i = 0; i < 100 && (await sum()).status !== status; i++) await rest.ask('GET', '/nothing_of_that_name');
    return sum();
  };
  await rest.sql("alter role authenticator set pgrst.db_aggregates_enabled = false; notify pgrst, 'reload config'");
  const refused = await settled(400);
  assert.equal(refused.body, {
    code: 'PGRST123',
    details: null,
    hint: null,
    message: 'Use of aggregate functions is not allowed',
  });
  assert.is((await rest.ask('GET', '/clients?select=projects(id.max())')).body.code, 'PGRST123');
  await rest.sql("alter role authenticator set pgrst.db_aggregates_enabled = true; notify pgrst, 'reload schema'");
  assert.is((await settled(200)).status, 200);
});

test.run();
