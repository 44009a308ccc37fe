/** The platform's tables, as numbered migrations: forward only, never edited once released. */
import { Migration } from '@mikro-orm/migrations';

class Accounts extends Migration {
  override up() {
    this.addSql(`
      create table platform.users (
        id integer generated always as identity primary key,
        email text not null unique,
        full_name text,
        password_hash text not null,
        created_at timestamptz not null default now()
      )`);
    this.addSql(`
      create table platform.tokens (
        id integer generated always as identity primary key,
        user_id integer not null references platform.users on delete cascade,
        name text not null,
        hash bytea not null unique,
        hint text not null,
        scopes text[] not null,
        project_ids integer[],
        created_at timestamptz not null default now(),
        last_used_at timestamptz,
        expires_at timestamptz
      )`);
    this.addSql('create index on platform.tokens (user_id)');
  }
}

class Projects extends Migration {
  override up() {
    this.addSql(`
      create table platform.projects (
        id integer generated always as identity primary key,
        ref text not null unique,
        owner text not null,
        -- Null for another of the same name that kubectl applied, and while a project is being deleted.
        held_name text,
        -- The Project's; null until it is known to exist.
        uid text,
        -- False until all that a creation over REST promised is there.
        complete boolean not null,
        created_at timestamptz not null default now(),
        unique (owner, held_name)
      )`);
  }
}

class EdgeFunctions extends Migration {
  override up() {
    this.addSql(`
      create table platform.edge_functions (
        id integer generated always as identity primary key,
        project_id integer not null references platform.projects on delete cascade,
        -- The EdgeFunction's.
        uid text not null unique,
        name text not null
      )`);
    this.addSql('create index on platform.edge_functions (project_id)');
  }
}

class TokenDescent extends Migration {
  override up() {
    // Null: made with a user token, or before this was kept.
    this.addSql('alter table platform.tokens add parent_id integer references platform.tokens on delete cascade');
    this.addSql('create index on platform.tokens (parent_id)');
  }
}

export const migrations = [
  { name: '0001_accounts', class: Accounts },
  { name: '0002_projects', class: Projects },
  { name: '0003_edge_functions', class: EdgeFunctions },
  { name: '0004_token_descent', class: TokenDescent },
];
