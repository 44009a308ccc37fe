/**
 * Objects that only a superuser can create, made once in a template: extensions, event triggers, and the removal of
 * PUBLIC's access to other projects. Nothing here runs with more rights than its caller's.
 */
import { API_ROLES } from '@slipway/installation';
import { OWNERS } from './owners.js';
import { identifier } from './session.js';

const apiRoles = API_ROLES.join(', ');

/** Supabase's default extensions. A project's owner can create any other trusted one. */
const EXTENSIONS = ['uuid-ossp', 'pgcrypto'];

/** SQL that notifies the database's REST service of a changed catalogue. */
const CATALOGUE_NOTICE = `
CREATE FUNCTION extensions.pgrst_ddl_watch() RETURNS event_trigger
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp') THEN
    PERFORM pg_notify('pgrst', 'reload schema');
  END IF;
END $$;

CREATE FUNCTION extensions.pgrst_drop_watch() RETURNS event_trigger
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary) THEN
    PERFORM pg_notify('pgrst', 'reload schema');
  END IF;
END $$;

CREATE EVENT TRIGGER pgrst_ddl_watch ON ddl_command_end EXECUTE FUNCTION extensions.pgrst_ddl_watch();
CREATE EVENT TRIGGER pgrst_drop_watch ON sql_drop EXECUTE FUNCTION extensions.pgrst_drop_watch();
`;

/** SQL that hides the sessions of other projects, including their names. */
const NEIGHBOURS_HIDDEN = `
REVOKE ALL ON pg_catalog.pg_stat_activity FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_catalog.pg_stat_get_activity(integer) FROM PUBLIC;
`;

export const TEMPLATE_SQL = `
CREATE SCHEMA extensions;
GRANT USAGE ON SCHEMA extensions TO ${OWNERS}, ${apiRoles};
${EXTENSIONS.map((name) => `CREATE EXTENSION ${identifier(name)} WITH SCHEMA extensions;`).join('\n')}
GRANT ALL ON SCHEMA public TO ${OWNERS};
GRANT USAGE ON SCHEMA public TO ${apiRoles};
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
${CATALOGUE_NOTICE}
${NEIGHBOURS_HIDDEN}
`;
