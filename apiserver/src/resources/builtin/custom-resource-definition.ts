import { isDeepStrictEqual } from 'node:util';
import { type KubeObject, timestamp } from '../../objects.js';
import { type FieldError, type JsonObject, validateCustomResourceDefinition } from '../../schema/index.js';
import type { BuiltinKind } from '../builtin.js';
import { createdAtColumn, nameColumn, type PrinterColumn } from '../columns.js';
import { compileJsonPath } from '../json-path.js';

/** Finalizer that a definition has until its objects are deleted. */
export const CLEANUP_FINALIZER = 'customresourcecleanup.apiextensions.k8s.io';
export const DEFINITIONS = 'customresourcedefinitions.apiextensions.k8s.io';

export interface DefinedNames {
  plural: string;
  singular?: string;
  kind: string;
  listKind?: string;
  shortNames?: string[];
  categories?: string[];
}

export interface DefinedVersion {
  name: string;
  served: boolean;
  storage: boolean;
  schema?: { openAPIV3Schema?: JsonObject };
  subresources?: { status?: object; scale?: object };
  additionalPrinterColumns?: PrinterColumn[];
  selectableFields?: { jsonPath: string }[];
}

export interface DefinitionSpec {
  group: string;
  names: DefinedNames;
  scope: 'Namespaced' | 'Cluster';
  versions: DefinedVersion[];
  preserveUnknownFields?: boolean;
}

export interface Condition extends JsonObject {
  type: string;
  status: string;
  reason: string;
  message: string;
  lastTransitionTime: string;
}

export interface DefinitionStatus {
  conditions: Condition[];
  acceptedNames: DefinedNames;
  storedVersions: string[];
}

export const definitionOf = (object: KubeObject) => ({
  spec: object.spec as unknown as DefinitionSpec,
  status: object.status as unknown as DefinitionStatus,
});

export const customResourceDefinition: BuiltinKind = {
  kind: 'CustomResourceDefinition',
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  subresources: ['status'],
  generation: true,
  unconditionalUpdate: false,
  columns: [nameColumn, createdAtColumn],
  strategy: {
    prepareCreate(object) {
      setDefaults(object);
      const { names, versions } = definitionOf(object).spec;
      object.metadata.finalizers = [...new Set([...(object.metadata.finalizers ?? []), CLEANUP_FINALIZER])];
      object.status = {
        conditions: [
          condition('NamesAccepted', 'True', 'NoConflicts', 'no conflicts found'),
          condition('Established', 'True', 'InitialNamesAccepted', 'the initial names have been accepted'),
        ],
        acceptedNames: names,
        storedVersions: (versions ?? []).filter(({ storage }) => storage).map(({ name }) => name),
      };
    },
    prepareUpdate(object, old) {
      setDefaults(object);
      const { spec, status } = definitionOf(object);
      if (isDeepStrictEqual(object.spec, old.spec)) return;
      const stored = spec.versions.filter(({ storage }) => storage).map(({ name }) => name);
      object.status = {
        ...status,
        acceptedNames: spec.names,
        storedVersions: [...new Set([...status.storedVersions, ...stored])],
      };
    },
    validate: (object, old) => [...validateCustomResourceDefinition(object, old), ...pathErrors(object)],
  },
};

/** Returns errors if the paths of columns and selectable fields are invalid. */
function pathErrors(object: KubeObject): FieldError[] {
  const versions = definitionOf(object).spec?.versions ?? [];
  return versions.flatMap(({ additionalPrinterColumns = [], selectableFields = [] }, index) => [
    ...additionalPrinterColumns.flatMap(({ jsonPath }, at) =>
      pathError(`spec.versions[${index}].additionalPrinterColumns[${at}].jsonPath`, jsonPath),
    ),
    ...selectableFields.flatMap(({ jsonPath }, at) =>
      pathError(`spec.versions[${index}].selectableFields[${at}].jsonPath`, jsonPath),
    ),
  ]);
}

function pathError(field: string, jsonPath: string): FieldError[] {
  try {
    compileJsonPath(jsonPath);
    return [];
  } catch (error) {
    return [{ type: 'FieldValueInvalid', field, badValue: jsonPath, detail: (error as Error).message }];
  }
}

function setDefaults(object: KubeObject): void {
  const spec = object.spec as unknown as (DefinitionSpec & { conversion?: object }) | undefined;
  if (!spec) return;
  spec.conversion ??= { strategy: 'None' };
  if (spec.names?.kind) {
    spec.names.singular ||= spec.names.kind.toLowerCase();
    spec.names.listKind ||= `${spec.names.kind}List`;
  }
}

const condition = (type: string, status: string, reason: string, message: string): Condition => ({
  type,
  status,
  lastTransitionTime: timestamp(new Date()),
  reason,
  message,
});
