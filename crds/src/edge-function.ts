import Type from 'typebox';
import type { KubernetesObject, ResourceDefinition } from './resource.js';
import { Conditions, oneOf } from './schema.js';

/** Limits on the Kubernetes API's memory that a project's functions use: the API and the operator reject more. */
export const FUNCTION_BUDGET = {
  functionsOfProject: 100,
  codeBytesOfProject: 16 * 1024 * 1024,
  /** Bytes of code of all projects of one account. */
  codeBytesOfAccount: 64 * 1024 * 1024,
  /** Bytes of versions beside the newest and the served one, of one function and of a whole project. */
  oldVersionBytes: 4 * 1024 * 1024,
  oldVersionBytesOfProject: 16 * 1024 * 1024,
} as const;

export const EdgeFunctionSpec = Type.Object(
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$',
      description: 'The last part of its address: /functions/v1/<name>.',
    }),
    code: Type.String({ minLength: 1, maxLength: 1_000_000, description: 'The source, in TypeScript or JavaScript.' }),
    verifyJwt: Type.Optional(
      Type.Boolean({ default: true, description: 'Whether a call needs a token that the project issued.' }),
    ),
    deployedGeneration: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          'Which version callers get: the newest that was made at or before this generation. Absent: always the newest; 0: none.',
      }),
    ),
  },
  { description: 'What the owner wants.' },
);

export const EdgeFunctionStatus = Type.Object(
  {
    phase: Type.Optional(oneOf(['pending', 'deployed', 'error'], { description: 'The state in one word.' })),
    message: Type.Optional(Type.String({ maxLength: 500, description: 'What is wrong, if anything.' })),
    observedGeneration: Type.Optional(Type.Integer({ description: 'The generation that this status is of.' })),
    url: Type.Optional(Type.String({ maxLength: 2048, description: 'Where it is called.' })),
    deployedVersion: Type.Optional(
      Type.Integer({ description: 'The version that callers get: the generation in which its code was new.' }),
    ),
    newestVersion: Type.Optional(Type.Integer({ description: 'The version of the code in spec.' })),
    problems: Type.Optional(
      Type.Array(
        Type.Object({
          message: Type.String({ maxLength: 500, description: 'What is wrong with the code.' }),
          line: Type.Optional(Type.Integer({ description: 'Counted from 1.' })),
          column: Type.Optional(Type.Integer({ description: 'Counted from 1.' })),
        }),
        { maxItems: 20, description: 'Why the version that was asked for was not deployed.' },
      ),
    ),
    conditions: Conditions,
  },
  { description: 'What the operator last saw.' },
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
  description: 'A function of a project, in the project’s namespace.',
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
