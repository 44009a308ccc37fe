import Type from 'typebox';
import type { KubernetesObject, ResourceDefinition } from './resource.js';
import { Conditions, oneOf, rule, Time } from './schema.js';

/** The steps of a build, in the order that they are shown. */
export const BUILD_PHASES = ['Queued', 'Cloning', 'Installing', 'Building', 'Deployed', 'Failed', 'Cancelled'] as const;

export const BuildSpec = Type.Object(
  {
    project: Type.String({ minLength: 1, maxLength: 63, description: 'The ref of the Project that is built.' }),
    revision: Type.Optional(
      Type.String({
        maxLength: 255,
        description: "A branch, tag or commit. Default: the project's production branch.",
      }),
    ),
    trigger: Type.Optional(
      oneOf(['api', 'webhook', 'kubectl'], { default: 'kubectl', description: 'What asked for it.' }),
    ),
  },
  {
    description: 'What is to be built.',
    'x-kubernetes-validations': [rule('self == oldSelf', 'spec is immutable: make another Build')],
  },
);

export const BuildStatus = Type.Object(
  {
    phase: Type.Optional(oneOf(BUILD_PHASES, { description: 'The step it is in.' })),
    message: Type.Optional(Type.String({ maxLength: 500, description: 'What is wrong, if anything.' })),
    commit: Type.Optional(Type.String({ maxLength: 64, description: 'The commit that was built.' })),
    startedAt: Type.Optional(Time('When it began.')),
    finishedAt: Type.Optional(Time('When it ended.')),
    conditions: Conditions,
  },
  { description: 'What the operator last saw.' },
);

export type BuildSpec = Type.Static<typeof BuildSpec>;
export type BuildStatus = Type.Static<typeof BuildStatus>;
export type Build = KubernetesObject<'Build', BuildSpec, BuildStatus>;

export const buildDefinition: ResourceDefinition = {
  kind: 'Build',
  plural: 'builds',
  singular: 'build',
  shortNames: [],
  scope: 'Namespaced',
  description: 'One build of a project’s source, in the project’s namespace.',
  spec: BuildSpec,
  status: BuildStatus,
  validations: [],
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Commit', type: 'string', jsonPath: '.status.commit' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
