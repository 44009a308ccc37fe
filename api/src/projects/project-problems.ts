/** Errors of routes of one project, as the OpenAPI document describes them. */

export const NO_PROJECT = { 404: 'There is no such project, or it is not yours.' };

/** Errors of routes that change the project. */
export const DELETING = {
  ...NO_PROJECT,
  409: { kind: 'project_deleting', text: 'The project is being deleted.' },
} as const;
