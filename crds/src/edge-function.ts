import Type from 'typebox';
import type { KubernetesObject, ResourceDefinition } from './resource.js';
import { Conditions, oneOf } from './schema.js';

/**
 * Limits of the memory that a project's functions take in the Kubernetes API. The API and the operator enforce them.
 */
export const FUNCTION_BUDGET = {
  functionsOfProject: 100,
  codeBytesOfProject: 16 * 1024 * 1024,
  /** Bytes of code in all projects of one account. */
  codeBytesOfAccount: 64 * 1024 * 1024,
  /** Bytes of old versions, of one function and of a whole project. The newest and the served version do not count. */
  oldVersionBytes: 4 * 1024 * 1024,
  oldVersionBytesOfProject: 16 * 1024 * 1024,
} as const;

export const EdgeFunctionSpec = Type.Object(
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$',
      description: 'The last part of the URL of the function: /functions/v1/<name>.',
    }),
    code: Type.String({ minLength: 1, maxLength: 1_000_000, description: 'The source, in TypeScript or JavaScript.' }),
    verifyJwt: Type.Optional(
      Type.Boolean({ default: true, description: 'True if a call needs a token that the project issued.' }),
    ),
    deployedGeneration: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          'Selects the version that callers get: the newest one created at or before this generation. ' +
          'Absent: the newest. 0: no version.',
      }),
    ),
  },
  { description: 'The desired state.' },
);

export const EdgeFunctionStatus = Type.Object(
  {
    phase: Type.Optional(oneOf(['pending', 'deployed', 'error'], { description: 'The state in one word.' })),
    message: Type.Optional(Type.String({ maxLength: 500, description: 'The problem, if there is one.' })),
    observedGeneration: Type.Optional(
      Type.Integer({ description: 'The metadata.generation that this status describes.' }),
    ),
    url: Type.Optional(Type.String({ maxLength: 2048, description: 'The URL of the function.' })),
    deployedVersion: Type.Optional(
      Type.Integer({ description: 'The version that callers get: the generation that introduced its code.' }),
    ),
    newestVersion: Type.Optional(Type.Integer({ description: 'The version of the code in spec.' })),
    problems: Type.Optional(
      Type.Array(
        Type.Object({
          message: Type.String({ maxLength: 500, description: 'The problem in the code.' }),
          line: Type.Optional(Type.Integer({ description: 'Counted from 1.' })),
          column: Type.Optional(Type.Integer({ description: 'Counted from 1.' })),
        }),
        { maxItems: 20, description: 'The reasons why the requested version was not deployed.' },
      ),
    ),
    conditions: Conditions,
  },
  { description: 'The state that the operator last observed.' },
);

export type EdgeFunctionSpec = Type.Static<typeof EdgeFunctionSpec>;
export type EdgeFunctionStatus = Type.Static<typeof EdgeFunctionStatus>;
export type EdgeFunction = KubernetesObject<'EdgeFunction', EdgeFunctionSpec, EdgeFunctionStatus>;

export const edgeFunctionDefinition: ResourceDefinition = {
  kind: 'EdgeFunction',
  plural: 'edgefunctions',
  singular: 'edgefunction',
  shortNames: ['efn'],
  scope: 'Namespaced',
  description: 'A function of a project. The object is in the project’s namespace.',
  spec: EdgeFunctionSpec,
  status: EdgeFunctionStatus,
  validations: [],
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Version', type: 'integer', jsonPath: '.status.deployedVersion' },
    { name: 'URL', type: 'string', jsonPath: '.status.url' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
