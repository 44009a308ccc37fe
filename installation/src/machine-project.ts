/**
 * The document of a project that has a virtual machine of its own: one JSON file on that machine, from which the
 * programs of the project's services read the project. In: the project, from the operator, or the text of the file.
 * Out: the text, or the project. An error names each wrong member without its value, because most values are secrets.
 */
import { createRequire } from 'node:module';
import { oneOf, PLANS, PROJECT_TYPES } from '@slipway/crds';
import { parseJson } from '@slipway/program';
import Type from 'typebox';

const require = createRequire(import.meta.url);

const text = (description: string) => Type.String({ minLength: 1, maxLength: 4096, description });
const texts = (description: string) => Type.Record(Type.String(), Type.String(), { description });

const DatabaseLogin = (description: string) =>
  Type.Object(
    {
      host: text('Host name or address of Postgres, or the folder of its Unix socket.'),
      port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'TCP port, which also names the Unix socket.' }),
      database: text('Name of the database.'),
      user: text('Login role.'),
      password: text('Present password of the role.'),
      nextPassword: Type.Optional(text('Password that Postgres is about to accept, during a rotation.')),
    },
    { description },
  );

/** A release ignores members that it does not know, because the file may be of a later release. */
export const MachineProject = Type.Object(
  {
    revision: text('Name of this state of the project. A service reports the revision that it uses.'),
    ref: Type.String({ pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$', description: 'The ref, which never changes.' }),
    type: oneOf(PROJECT_TYPES, { description: 'Type of the project.' }),
    plan: oneOf(PLANS, { description: 'Plan of the project, which decides limits of its services.' }),
    services: Type.Array(text('A service. Unknown ones are ignored.'), {
      description: 'Services that the project has.',
    }),
    url: Type.String({
      pattern: '^https?://[^/?#@\\s]+(/p/[a-z0-9-]+)?$',
      maxLength: 2048,
      description: 'URL of the project, without a slash at the end.',
    }),
    jwt: Type.Object(
      {
        secret: text('The secret that signs new tokens.'),
        nextSecret: Type.Optional(text('During a rotation: the secret that is about to sign.')),
        previousSecret: Type.Optional(text('During a rotation: the secret that signed before.')),
      },
      { description: 'Shared secrets (HS256). Tokens of each are valid.' },
    ),
    apiKeys: Type.Object(
      { anon: text('The publishable key.'), serviceRole: text('The secret key.') },
      { description: 'API keys of the project.' },
    ),
    logins: Type.Object(
      {
        authenticator: DatabaseLogin('Login of REST, realtime and storage.'),
        authAdmin: DatabaseLogin('Login of auth, which owns schema auth.'),
        owner: DatabaseLogin('Login of the owner, which migrates schemas of storage and realtime.'),
      },
      { description: 'Logins at the database.' },
    ),
    replication: Type.Object(
      {
        slot: text('Replication slot of realtime.'),
        password: text('Password of the role that reads changes for realtime.'),
      },
      { description: 'How realtime reads changes of tables.' },
    ),
    authConfig: texts('Settings of auth: GOTRUE_* keys.'),
    environment: texts('Variables of edge functions, and SUPABASE_DB_URL.'),
  },
  { description: 'A project with a machine of its own.' },
);
export type MachineProject = Type.Static<typeof MachineProject>;

/** @throws Error that names each wrong member */
export function readMachineProject(json: string): MachineProject {
  // The message of JsonRefusal never quotes the text.
  const project = parseJson(json);
  check(project);
  return project;
}

/**
 * Returns the content of the file. Replace the file by renaming a new one, so that no program reads a part of it.
 * @throws Error that names each wrong member
 */
export function machineProjectText(project: MachineProject): string {
  check(project);
  return `${JSON.stringify(project, null, 2)}\n`;
}

function check(project: unknown): asserts project is MachineProject {
  // Imported here, because it would cost programs that read no such file 0.2 s of processor time and 10 MB.
  const { Value } = require('typebox/value') as typeof import('typebox/value');
  const problems = Value.Errors(MachineProject, project).map(
    ({ instancePath, message }) => `${instancePath.slice(1).replaceAll('/', '.') || 'the project'} ${message}`,
  );
  if (problems.length > 0) throw new Error([...new Set(problems)].join('; '));
}
