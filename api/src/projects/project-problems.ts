/** Errors of routes of one project, as the OpenAPI document describes them. */

export const NO_PROJECT = { 404: 'There is no such project, or it is not yours.' };

/** Errors of routes that change the project. */
export const DELETING = {
  ...NO_PROJECT,
  409: { kind: 'project_deleting', text: 'The project is being deleted.' },
} as const;

/** Error of routes for the machine of a dedicated project. */
export const NOT_DEDICATED = {
  400: { kind: 'wrong_type', text: 'The project is not dedicated, or the request is not valid.' },
} as const;
