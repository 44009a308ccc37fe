import Type from 'typebox';
import { DNS_LABEL, GROUP } from './names.js';
import type { KubernetesObject, ResourceDefinition } from './resource.js';
import { Conditions, oneOf, rule, Time } from './schema.js';
import { BRANCH } from './text-forms.js';

/** The steps of a build, in order. While a step runs, its name is the phase of the Build. */
export const BUILD_STEPS = ['Cloning', 'Installing', 'Building'] as const;
export type BuildStep = (typeof BUILD_STEPS)[number];

/** The phase that earlier releases gave to a replaced Build. It is now `Cancelled`, with the reason `Superseded`. */
const FORMER_CANCELLED = 'Superseded';

export const BUILD_PHASES = [
  'Queued',
  ...BUILD_STEPS,
  'Deployed',
  'Failed',
  'Cancelled',
  'Removed',
  FORMER_CANCELLED,
] as const;
export type BuildPhase = (typeof BUILD_PHASES)[number];

/** The phases of a Build that neither waits nor runs. `Removed` is a deployed preview that was removed later. */
const FINISHED: readonly string[] = ['Deployed', 'Failed', 'Cancelled', 'Removed', FORMER_CANCELLED];

/** Annotation that cancels the Build, whatever its value is. (The spec can't do this, because it is immutable.) */
export const ANNOTATION_CANCEL = `${GROUP}/cancel`;

/** Annotation that removes the preview which this Build or older Builds of the branch made, whatever its value is. */
export const ANNOTATION_REMOVE_PREVIEW = `${GROUP}/remove-preview`;

/** Annotation with the digests of the webhook deliveries that made the Build, separated by spaces, newest last. */
export const ANNOTATION_DELIVERIES = `${GROUP}/deliveries`;

export const BUILD_NAME_MAX_LENGTH = 63;
/** Pattern of a Build's name: labels joined by dots, as in every object name in the Kubernetes API. */
export const BUILD_NAME_PATTERN = `^${DNS_LABEL}([.]${DNS_LABEL})*$`;

export const REVISION_MAX_LENGTH = 255;

/** Maximum length of a commit: a SHA-256 digest in hexadecimal digits. */
export const COMMIT_MAX_LENGTH = 64;

const BRANCH_PREFIX = 'refs/heads/';
/** Maximum length of a branch name, because a revision can consist of the prefix and the name. */
export const BRANCH_MAX_LENGTH = REVISION_MAX_LENGTH - BRANCH_PREFIX.length;
/** Returns a revision that means the branch even if a tag has the same name. */
export const revisionOfBranch = (branch: string) => `${BRANCH_PREFIX}${branch}`;

/** Returns the branch that the revision means by its whole name. */
export const branchIn = (revision: string | undefined): string | undefined =>
  revision?.startsWith(BRANCH_PREFIX) ? revision.slice(BRANCH_PREFIX.length) : undefined;

export const BUILD_BUDGET = {
  /** Maximum number of Builds of a project's site in the Kubernetes API, including waiting and running ones. */
  buildsOfProject: 20,
  /** Maximum number of Builds of a project's previews. Builds whose output a preview serves are always retained. */
  buildsOfPreviews: 50,
  /** A build is started this often in total if its machine fails. */
  attempts: 2,
} as const;

export const BUILD_TRIGGERS = ['api', 'webhook', 'kubectl', 'poll'] as const;

export const BuildSpec = Type.Object(
  {
    project: Type.String({ minLength: 1, maxLength: 63, description: 'The ref of the project.' }),
    revision: Type.Optional(
      Type.String({
        maxLength: REVISION_MAX_LENGTH,
        description: "A branch, tag or commit. Default: the preview's branch, or the project's production branch.",
      }),
    ),
    deployment: Type.Optional(
      Type.String({
        maxLength: BUILD_NAME_MAX_LENGTH,
        pattern: BUILD_NAME_PATTERN,
        description: 'Takes the output of this Build live again instead of building.',
      }),
    ),
    preview: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: BRANCH_MAX_LENGTH,
        description: 'Builds the preview of this branch instead of the site.',
        'x-kubernetes-validations': [
          rule(`self.matches(${JSON.stringify(BRANCH.pattern)})`, `must be ${BRANCH.words}`),
        ],
      }),
    ),
    unless: Type.Optional(
      Type.String({
        pattern: '^([0-9a-f]{40}|[0-9a-f]{64})$',
        description: 'If this is the newest commit of the branch, nothing is built and the Build is deleted.',
      }),
    ),
    trigger: Type.Optional(oneOf(BUILD_TRIGGERS, { default: 'kubectl', description: 'The origin of the Build.' })),
  },
  {
    description: 'The source to build, or the earlier Build to take live again.',
    'x-kubernetes-validations': [
      rule('self == oldSelf', 'spec is immutable: create another Build'),
      rule('!has(self.preview) || !has(self.deployment)', 'a preview has no rollback: set preview or deployment'),
    ],
  },
);

const Step = Type.Object(
  {
    name: oneOf(BUILD_STEPS, { description: 'The name of the step.' }),
    startedAt: Time('The time when the step started.'),
    finishedAt: Type.Optional(Time('The time when the step ended.')),
    exitCode: Type.Optional(
      Type.Integer({ description: 'The exit code of the command. Absent if the command was killed.' }),
    ),
  },
  { description: 'One step.' },
);

/** Maximum length of each member of `status.detected`. The values may come from a repository. */
export const DETECTED_MAX_LENGTHS = {
  framework: 63,
  nodeVersion: 63,
  packageManager: 63,
  installCommand: 1024,
  buildCommand: 1024,
  outputDir: 1024,
} as const;

const detectedText = (member: keyof typeof DETECTED_MAX_LENGTHS, description: string) =>
  Type.Optional(Type.String({ maxLength: DETECTED_MAX_LENGTHS[member], description }));

const Detected = Type.Object(
  {
    framework: detectedText('framework', 'The framework of the site.'),
    nodeVersion: detectedText('nodeVersion', 'The version of Node that ran the build.'),
    packageManager: detectedText('packageManager', 'The package manager with its version.'),
    installCommand: detectedText('installCommand', 'The command that installed packages.'),
    buildCommand: detectedText('buildCommand', 'The command that built the site.'),
    outputDir: detectedText('outputDir', 'The folder that was published.'),
  },
  { description: 'The settings of the build, both configured and detected.' },
);

export const BuildStatus = Type.Object(
  {
    number: Type.Optional(
      Type.Integer({ minimum: 1, description: 'The number of the Build within its project: 7 for build-7.' }),
    ),
    phase: Type.Optional(oneOf(BUILD_PHASES, { description: 'The state in one word.' })),
    message: Type.Optional(Type.String({ maxLength: 500, description: 'The reason why the Build waits or failed.' })),
    commit: Type.Optional(Type.String({ maxLength: COMMIT_MAX_LENGTH, description: 'The commit that was built.' })),
    bytes: Type.Optional(Type.Integer({ minimum: 0, description: 'Total size of the deployed files in bytes.' })),
    ticketDigest: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        description:
          'The SHA-256 digest of the ticket with which the running build fetches the git credentials. ' +
          'The API removes it once they are fetched.',
      }),
    ),
    steps: Type.Optional(
      Type.Array(Step, { maxItems: BUILD_STEPS.length, description: 'The steps that have started, in order.' }),
    ),
    detected: Type.Optional(Detected),
    attempts: Type.Optional(Type.Integer({ minimum: 0, description: 'The number of starts of the build.' })),
    observedGeneration: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The metadata.generation that this status describes.' }),
    ),
    startedAt: Type.Optional(Time('The time when the build started.')),
    finishedAt: Type.Optional(Time('The time when the build ended.')),
    conditions: Conditions,
  },
  { description: 'The state that the operator last observed.' },
);

export type BuildSpec = Type.Static<typeof BuildSpec>;
export type BuildStatus = Type.Static<typeof BuildStatus>;
export type Build = KubernetesObject<'Build', BuildSpec, BuildStatus>;

export const isBuildFinished = ({ status }: Build): boolean => FINISHED.includes(status?.phase ?? '');
export const isBuildRunning = ({ status }: Build): boolean =>
  (BUILD_STEPS as readonly string[]).includes(status?.phase ?? '');
const NUMBERED = /^build-(\d{1,9})$/;
type Numbered = Pick<Build, 'status'> & { metadata: { name: string } };
/** Returns undefined if the Build was named by hand and no controller has seen it. */
export function numberOfBuild({ metadata, status }: Numbered): number | undefined {
  const [, digits] = NUMBERED.exec(metadata.name) ?? [];
  return digits === undefined ? status?.number : Number(digits);
}

/** Sorts oldest first. Builds of the same second are sorted by name, with numbers compared as numbers. */
export const buildsInOrder = <B extends Build>(builds: readonly B[]): B[] =>
  builds.toSorted((a, b) => madeAt(a).localeCompare(madeAt(b)) || byName.compare(a.metadata.name, b.metadata.name));

const byName = new Intl.Collator('en', { numeric: true });
const madeAt = ({ metadata }: Build) => metadata.creationTimestamp ?? '';

/** True if the Build waits. A Build that no controller has seen waits too. */
export const isBuildWaiting = ({ status }: Build): boolean => (status?.phase ?? 'Queued') === 'Queued';

/** True until the Build has determined if there is anything to build. */
export const isPushCheck = (build: Build): boolean =>
  build.spec.unless !== undefined && !isBuildFinished(build) && build.status?.commit === undefined;

/** True if the Build builds or restores the site itself, not a preview. */
export const isOfSite = ({ spec }: Build): boolean => spec.preview === undefined;

/** Returns, for each branch, the newest deployed Build of its preview. Sorted oldest first. */
export function previewBuildsOf<B extends Build>(builds: readonly B[]): B[] {
  const newest = new Map<string, B>();
  for (const build of buildsInOrder(builds)) {
    const { preview } = build.spec;
    if (preview === undefined || build.status?.phase !== 'Deployed') continue;
    newest.delete(preview);
    newest.set(preview, build);
  }
  return [...newest.values()];
}

export const buildDefinition: ResourceDefinition = {
  kind: 'Build',
  plural: 'builds',
  singular: 'build',
  shortNames: [],
  scope: 'Namespaced',
  description: 'One build of a project’s source. The object is in the project’s namespace.',
  spec: BuildSpec,
  status: BuildStatus,
  validations: [
    rule(
      `self.metadata.name.size() <= ${BUILD_NAME_MAX_LENGTH}`,
      `metadata.name becomes part of other object names: at most ${BUILD_NAME_MAX_LENGTH} characters`,
    ),
  ],
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Preview', type: 'string', jsonPath: '.spec.preview' },
    { name: 'Commit', type: 'string', jsonPath: '.status.commit' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
