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
    // Null: a user token made it, or it is older than this column.
    this.addSql('alter table platform.tokens add parent_id integer references platform.tokens on delete cascade');
    this.addSql('create index on platform.tokens (parent_id)');
  }
}

/** Existing accounts keep every plan and type, and the former limit of projects; null is the installation's default. */
class Administration extends Migration {
  override up() {
    this.addSql(`
      alter table platform.users
        add is_administrator boolean not null default false,
        add disabled_at timestamptz,
        add allowed_plans text[],
        add allowed_types text[],
        add max_projects integer check (max_projects >= 0)`);
    this.addSql(`
      update platform.users set
        allowed_plans = '{free,starter,pro,team,enterprise}',
        allowed_types = '{shared,dedicated,frontend,app}',
        max_projects = 1000`);
    this.addSql(`
      create table platform.invitations (
        id integer generated always as identity primary key,
        -- SHA-256 of the code.
        hash bytea not null unique,
        -- The only address that may use it; null: any.
        email text,
        -- Network of the request, for a code that its address requested itself.
        network text,
        created_by integer references platform.users on delete set null,
        created_at timestamptz not null default now(),
        expires_at timestamptz not null,
        used_at timestamptz,
        used_by integer references platform.users on delete set null
      )`);
  }
}

/** Migration after which projects belong to accounts by id. */
class Ownership extends Migration {
  override up() {
    this.addSql(`
      alter table platform.users
        add email_verified_at timestamptz,
        -- When the account got the address that it has.
        add email_since timestamptz not null default now()`);
    this.addSql('update platform.users set email_since = created_at');
    // Every address that an account gave up, stored for good: a later holder inherits nothing that is named after it.
    this.addSql(`
      create table platform.former_addresses (
        id integer generated always as identity primary key,
        address text not null,
        -- Null: the account is deleted.
        user_id integer references platform.users on delete set null,
        -- The account had verified it: an address that anybody may claim says nothing about who had it.
        verified boolean not null default false,
        changed_at timestamptz not null default now()
      )`);
    this.addSql('create index on platform.former_addresses (address)');
    this.addSql('create index on platform.former_addresses (user_id)');
    this.addSql(`
      alter table platform.projects
        -- Null: no account owns it, until an administrator assigns it.
        add owner_id integer references platform.users,
        -- The account that owned it last: it may know the keys.
        add last_owner_id integer,
        -- When the address in "owner" became the one in spec.owner.
        add owner_since timestamptz not null default now(),
        -- The metadata.generation that this row agrees with; null: written by a release that compared addresses.
        add seen_generation integer,
        -- spec.owner is to become the address of the account.
        add follow_owner boolean not null default false,
        -- deletionPolicy is Retain.
        add retained boolean not null default false,
        -- Which rotation of a transfer is due: the first, the second, or 0 for none.
        add rotation_step smallint not null default 0,
        add rotation_number integer`);
    this.addSql(`
      update platform.projects p set owner_id = u.id, last_owner_id = u.id
      from platform.users u where u.email = p.owner`);
    this.addSql('create index on platform.projects (owner_id)');
    // Data that a deleted Project left behind.
    this.addSql(`
      create table platform.retained_projects (
        ref text primary key,
        owner_id integer not null references platform.users,
        retained_at timestamptz not null default now()
      )`);
    this.addSql('create index on platform.retained_projects (owner_id)');
  }
}

/** Sessions of user tokens, networks that accounts signed in from, and the links that are mailed to accounts. */
class Sessions extends Migration {
  override up() {
    // User tokens of earlier releases name no session: a changed password revokes all of them.
    this.addSql('alter table platform.users add unnamed_sessions_ended_at timestamptz');
    this.addSql(`
      create table platform.sessions (
        id integer generated always as identity primary key,
        user_id integer not null references platform.users on delete cascade,
        network text not null,
        user_agent text not null,
        created_at timestamptz not null default now(),
        expires_at timestamptz not null
      )`);
    this.addSql('create index on platform.sessions (user_id)');
    this.addSql('create index on platform.sessions (expires_at)');
    this.addSql(`
      create table platform.sign_in_networks (
        user_id integer not null references platform.users on delete cascade,
        network text not null,
        last_used_at timestamptz not null default now(),
        primary key (user_id, network)
      )`);
    this.addSql(`
      create table platform.mail_tokens (
        id integer generated always as identity primary key,
        user_id integer not null references platform.users on delete cascade,
        purpose text not null check (purpose in ('verify', 'reset')),
        -- The address that the link was sent to; it becomes the account's if it is another.
        address text not null,
        -- SHA-256 of the token.
        hash bytea not null unique,
        created_at timestamptz not null default now(),
        expires_at timestamptz not null
      )`);
    this.addSql('create index on platform.mail_tokens (user_id)');
    this.addSql('create index on platform.mail_tokens (expires_at)');
  }
}

/** Projects that changed hands, so that the former owner can see it. */
class LostProjects extends Migration {
  override up() {
    this.addSql(`
      create table platform.lost_projects (
        user_id integer not null references platform.users on delete cascade,
        ref text not null,
        cause text not null check (cause in ('assigned', 'spec')),
        lost_at timestamptz not null default now(),
        primary key (user_id, ref)
      )`);
    this.addSql('create index on platform.lost_projects (lost_at)');
  }
}

/** Codes for a sign-in from a new network, mailed like links. */
class SignInCodes extends Migration {
  override up() {
    this.addSql('alter table platform.mail_tokens drop constraint mail_tokens_purpose_check');
    this.addSql(
      'alter table platform.mail_tokens add constraint mail_tokens_purpose_check ' +
        "check (purpose in ('verify', 'reset', 'sign-in'))",
    );
  }
}

/** Limits of machines, which cost money at a provider. No earlier release made one. */
class Machines extends Migration {
  override up() {
    this.addSql('alter table platform.users add max_machines integer check (max_machines >= 0)');
    this.addSql('alter table platform.projects add has_machine boolean not null default false');
  }
}

/** Channels of notifications, the outbox, and what is known of each project's health and quotas. */
class Notifications extends Migration {
  override up() {
    this.addSql(`
      create table platform.notification_channels (
        id integer generated always as identity primary key,
        project_id integer references platform.projects on delete cascade,
        -- Of a channel for events of an account.
        user_id integer references platform.users on delete cascade,
        kind text not null check (kind in ('mail', 'slack', 'webhook')),
        -- The members of a webhook; the secrets are encrypted.
        url text,
        events text[],
        secret text,
        former_secret text,
        former_until timestamptz,
        created_at timestamptz not null default now(),
        -- Failed attempts in a row.
        failures integer not null default 0,
        failing_since timestamptz,
        last_error text,
        paused_until timestamptz,
        disabled_at timestamptz,
        -- The process that delivers on this channel now.
        lease uuid,
        leased_until timestamptz,
        check ((project_id is null) <> (user_id is null))
      )`);
    this.addSql(`create unique index on platform.notification_channels (project_id, kind)
      where kind <> 'webhook' and project_id is not null`);
    this.addSql('create unique index on platform.notification_channels (user_id) where user_id is not null');
    this.addSql(`
      create table platform.notification_events (
        id uuid primary key,
        -- Names the object and its transition.
        key text not null unique,
        project_id integer references platform.projects on delete cascade,
        user_id integer references platform.users on delete cascade,
        type text not null,
        data json not null,
        occurred_at timestamptz not null,
        created_at timestamptz not null
      )`);
    this.addSql('create index on platform.notification_events (project_id)');
    this.addSql('create index on platform.notification_events (user_id)');
    this.addSql('create index on platform.notification_events (created_at)');
    this.addSql(`
      create table platform.notification_deliveries (
        id bigint generated always as identity primary key,
        event_id uuid not null references platform.notification_events on delete cascade,
        channel_id integer not null references platform.notification_channels on delete cascade,
        status text not null default 'pending' check (status in ('pending', 'delivered', 'failed', 'skipped')),
        attempts smallint not null default 0,
        next_at timestamptz not null,
        -- An object for each attempt.
        history jsonb not null default '[]',
        unique (event_id, channel_id)
      )`);
    this.addSql('create index on platform.notification_deliveries (channel_id, id)');
    this.addSql(`create index on platform.notification_deliveries (channel_id, next_at, id)
      where status = 'pending'`);
    this.addSql(`
      create table platform.project_health (
        project_id integer primary key references platform.projects on delete cascade,
        state text not null,
        -- When the project got into this state.
        since timestamptz not null default now(),
        -- The owner was notified that the project was healthy for the first time.
        announced boolean not null default false,
        -- When a short failure began that nobody was notified of.
        flapped_at timestamptz,
        -- When the state is to be looked at again although the project does not change.
        look_at timestamptz,
        -- The time in the status that was observed last.
        observed_at timestamptz,
        -- Level of each quota, and when the owner was notified of each level.
        quotas jsonb not null default '{}'
      )`);
    this.addSql('create index on platform.project_health (look_at) where look_at is not null');
    // The state of existing projects is recorded without a notification.
    this.addSql(`insert into platform.project_health (project_id, state) select id, 'unknown' from platform.projects`);
  }
}

/** Forms of sites, and their entries. */
class Forms extends Migration {
  override up() {
    this.addSql(`
      create table platform.forms (
        project_id integer not null references platform.projects on delete cascade,
        name text not null,
        created_at timestamptz not null default now(),
        -- Days after which an entry is deleted; null: entries stay.
        keep_days integer check (keep_days between 1 and 3650),
        primary key (project_id, name)
      )`);
    this.addSql(`
      create table platform.form_entries (
        id bigint generated always as identity primary key,
        project_id integer not null,
        form text not null,
        data json not null,
        bytes integer not null,
        -- Why the entry is probably not a person's.
        flagged text,
        created_at timestamptz not null,
        foreign key (project_id, form) references platform.forms on delete cascade
      )`);
    this.addSql('create index on platform.form_entries (project_id, form, id)');
    this.addSql('create index on platform.form_entries (project_id, id) where flagged is not null');
    this.addSql(`
      create table platform.form_usage (
        project_id integer primary key references platform.projects on delete cascade,
        -- Without flagged entries.
        entries integer not null default 0,
        bytes bigint not null default 0
      )`);
  }
}

export const migrations = [
  { name: '0001_accounts', class: Accounts },
  { name: '0002_projects', class: Projects },
  { name: '0003_edge_functions', class: EdgeFunctions },
  { name: '0004_token_descent', class: TokenDescent },
  { name: '0005_administration', class: Administration },
  { name: '0006_ownership', class: Ownership },
  { name: '0007_sessions', class: Sessions },
  { name: '0008_lost_projects', class: LostProjects },
  { name: '0009_sign_in_codes', class: SignInCodes },
  { name: '0010_machines', class: Machines },
  { name: '0011_notifications', class: Notifications },
  { name: '0012_forms', class: Forms },
];
