/** Schemas of the logs of a project's services. */
import { oneOf } from '@slipway/crds';
import { LOGGED_SERVICES, SERVICE_LOG_LEVELS } from '@slipway/installation';
import Type from 'typebox';
import { Id, Time } from '../http/schema.js';

export const ProjectLogPath = Type.Object({
  id: Id('The id of the project.'),
  service: oneOf(LOGGED_SERVICES, { description: 'The service.' }),
});
export type ProjectLogPath = Type.Static<typeof ProjectLogPath>;

export const ProjectLogQuery = Type.Object(
  {
    level: Type.Optional(
      oneOf(SERVICE_LOG_LEVELS, { default: 'info', description: 'Returns only lines of this level or a higher one.' }),
    ),
    since: Type.Optional(
      Type.String({ format: 'date-time', description: 'Returns only lines of this time or later.' }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        default: 100,
        description: 'The maximum number of lines. The newest ones are returned.',
      }),
    ),
  },
  { $id: 'ProjectLogQuery', additionalProperties: false },
);
export type ProjectLogQuery = Type.Static<typeof ProjectLogQuery>;

export const ProjectLogLine = Type.Object(
  {
    time: Time('The time of the event.'),
    level: Type.String({ description: 'info, warn or error; debug too on the machine of a dedicated project.' }),
    message: Type.String({ description: 'The event.' }),
  },
  {
    $id: 'ProjectLogLine',
    additionalProperties: Type.Union([Type.String(), Type.Number()]),
    description:
      'A line of a log. Further members depend on the event: method, path, status, code, reason, request_id.',
  },
);
export type ProjectLogLine = Type.Static<typeof ProjectLogLine> & { [fact: string]: string | number };

export const ProjectLogs = Type.Object(
  { items: Type.Array(ProjectLogLine, { description: 'The lines, newest last.' }) },
  { $id: 'ProjectLogs' },
);
export interface ProjectLogs {
  items: ProjectLogLine[];
}
