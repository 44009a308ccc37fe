import type { Status } from '../schema/field-error.js';
import { type FieldSet, paths } from './field-set.js';
import type { Manager } from './managers.js';

export interface Conflict {
  manager: Manager;
  fields: FieldSet;
}

/** Returns the 409 of a server-side apply whose fields other managers own. */
export function conflictStatus(conflicts: readonly Conflict[]): Status {
  const found = conflicts.flatMap(({ manager, fields }) =>
    paths(fields).map((path) => ({ manager: printManager(manager), path })),
  );
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: message(found),
    reason: 'Conflict',
    details: {
      causes: found.map(({ manager, path }) => ({
        reason: 'FieldManagerConflict',
        message: `conflict with ${manager}`,
        field: path,
      })),
    },
    code: 409,
  };
}

function printManager({ manager, subresource, operation, apiVersion, time }: Manager): string {
  const name = JSON.stringify(manager) + (subresource === '' ? '' : ` with subresource ${JSON.stringify(subresource)}`);
  if (operation === 'Apply') return name;
  return time === undefined ? `${name} using ${apiVersion}` : `${name} using ${apiVersion} at ${time}`;
}

function message(found: readonly { manager: string; path: string }[]): string {
  const [first] = found;
  if (first && found.length === 1) return `Apply failed with 1 conflict: conflict with ${first.manager}: ${first.path}`;
  const managers = [...new Set(found.map(({ manager }) => manager))].sort();
  const parts = managers.map((manager) => {
    const lines = found.filter((conflict) => conflict.manager === manager).map(({ path }) => `- ${path}`);
    return `conflicts with ${manager}:\n${lines.join('\n')}`;
  });
  return `Apply failed with ${found.length} conflicts: ${parts.join('\n')}`;
}
