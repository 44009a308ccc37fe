/**
 * Enforces which room of a program may import which. A room is a folder of its sources; docs/architecture.md says what
 * belongs in each. Tests may import from every room.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, importsOf, root, sourcesIn } from './sources.js';

const SERVICES = ['auth', 'rest', 'realtime', 'storage', 'functions', 'hosting'].map((name) => `services/${name}`);

/** The rooms that each room may import. `.` stands for the files at the top of the program. */
const ROOMS: Record<string, Record<string, string[]>> = {
  dataplane: {
    bounds: [],
    logs: ['http'],
    http: ['bounds'],
    sql: ['bounds'],
    projects: ['sql'],
    identity: ['http', 'projects'],
    services: ['http', 'projects', 'identity'],
    'services/auth': ['bounds', 'logs', 'http', 'sql', 'projects', 'identity', 'services'],
    'services/rest': ['bounds', 'http', 'sql', 'projects', 'services'],
    'services/realtime': ['bounds', 'http', 'sql', 'projects', 'identity', 'services'],
    'services/storage': ['bounds', 'http', 'sql', 'projects', 'services'],
    'services/functions': ['http', 'projects', 'services'],
    'services/hosting': ['http', 'services'],
    upstreams: ['http', 'projects', 'services'],
    gateway: ['logs', 'http', 'sql', 'projects', 'identity', 'services', 'upstreams'],
    standalone: ['http', 'sql', 'projects', 'identity', 'services', 'services/auth', 'services/rest', 'logs'],
    '.': ['logs', 'http', 'projects', 'services', 'upstreams', 'gateway', ...SERVICES],
    machine: [
      '.',
      'logs',
      'projects',
      'upstreams',
      'gateway',
      'services',
      ...SERVICES.filter((name) => !/hosting$/.test(name)),
    ],
  },
  operator: {
    runtime: [],
    installation: ['runtime'],
    capabilities: [],
    engines: ['runtime', 'capabilities'],
    'engines/postgres': ['runtime', 'capabilities'],
    'engines/machine': ['runtime', 'capabilities', 'engines', 'engines/postgres'],
    'engines/kubernetes': ['runtime', 'capabilities', 'engines', 'engines/postgres'],
    'engines/cloud': ['runtime', 'capabilities', 'engines', 'engines/postgres'],
    controllers: ['runtime', 'capabilities'],
    types: ['controllers'],
    '.': [
      'runtime',
      'installation',
      'capabilities',
      'engines',
      'engines/postgres',
      'engines/machine',
      'engines/kubernetes',
      'engines/cloud',
      'controllers',
      'types',
    ],
  },
  api: {
    settings: [],
    http: ['settings'],
    callers: ['http'],
    kubernetes: ['http'],
    sql: ['http'],
    mail: ['settings'],
    outbox: ['settings', 'kubernetes'],
    health: ['http', 'kubernetes'],
    discovery: ['http', 'settings', 'kubernetes'],
    accounts: ['http', 'settings', 'callers', 'kubernetes', 'mail', 'outbox'],
    tokens: ['http', 'settings', 'callers', 'outbox', 'accounts'],
    access: ['http', 'callers', 'accounts', 'tokens'],
    database: ['http', 'callers', 'accounts', 'tokens'],
    projects: [
      'http',
      'settings',
      'callers',
      'kubernetes',
      'sql',
      'mail',
      'outbox',
      'discovery',
      'accounts',
      'database',
    ],
    administration: ['http', 'callers', 'kubernetes', 'mail', 'accounts', 'projects'],
    'auth-admin': ['http', 'settings'],
    config: ['http', 'settings', 'callers', 'kubernetes', 'accounts', 'database', 'projects', 'query', 'auth-admin'],
    live: ['http'],
    logs: ['http', 'settings', 'callers', 'kubernetes', 'projects', 'functions', 'live'],
    functions: ['http', 'settings', 'callers', 'kubernetes', 'database', 'projects'],
    deploys: ['http', 'settings', 'callers', 'kubernetes', 'database', 'projects', 'live'],
    notifications: ['http', 'settings', 'callers', 'kubernetes', 'mail', 'outbox', 'projects'],
    forms: ['http', 'settings', 'callers', 'kubernetes', 'outbox', 'projects'],
    query: ['http', 'callers', 'kubernetes', 'sql', 'projects'],
    mcp: ['http', 'settings', 'callers', 'kubernetes', 'sql', 'projects', 'query', 'auth-admin'],
    '.': [
      'settings',
      'http',
      'kubernetes',
      'mail',
      'outbox',
      'health',
      'discovery',
      'accounts',
      'tokens',
      'access',
      'database',
      'projects',
      'administration',
      'config',
      'logs',
      'functions',
      'deploys',
      'notifications',
      'forms',
      'query',
      'mcp',
    ],
  },
};

for (const [program, rooms] of Object.entries(ROOMS)) {
  const imports = importsIn(program, Object.keys(rooms));

  test(`each room of ${program} imports only rooms that it may import`, () => {
    const forbidden = imports.filter(({ from, to }) => from !== to && !rooms[from]?.includes(to));
    assert.equal(
      forbidden.map(({ file, name }) => `${program}/src/${file} imports ${name}`),
      [],
    );
  });

  test(`a room of ${program} imports each room that is listed for it`, () => {
    const present = new Set(imports.map(({ from, to }) => `${from} imports ${to}`));
    const allowed = Object.entries(rooms).flatMap(([from, others]) => others.map((to) => `${from} imports ${to}`));
    assert.equal(
      allowed.filter((arrow) => !present.has(arrow)),
      [],
    );
  });

  test(`no imports between rooms of ${program} form a cycle`, () => {
    const isFree = (room: string, above: string[]): boolean =>
      !above.includes(room) && (rooms[room] ?? []).every((below) => isFree(below, [...above, room]));
    assert.equal(
      Object.keys(rooms).filter((room) => !isFree(room, [])),
      [],
    );
  });
}

interface Import {
  file: string;
  name: string;
  from: string;
  to: string;
}

function importsIn(program: string, rooms: readonly string[]): Import[] {
  const files = sourcesIn(program).filter((file) => !FOR_TESTS.test(file));
  return files.flatMap((source) => {
    const file = source.slice(`${program}/src/`.length);
    const names = importsOf(readFileSync(path.join(root, source), 'utf8')).filter((name) => name.startsWith('.'));
    return names.map((name) => {
      const imported = path.normalize(path.join(path.dirname(file), name));
      return { file, name, from: roomOf(file, rooms), to: roomOf(imported, rooms) };
    });
  });
}

/**
 * Returns the innermost room around a file. A folder that is not listed counts as a room that no other room may import.
 */
function roomOf(file: string, rooms: readonly string[]): string {
  const folder = path.dirname(file);
  const around = rooms.filter((room) => folder === room || folder.startsWith(`${room}/`));
  return around.toSorted((a, b) => b.length - a.length)[0] ?? folder;
}

test.run();
