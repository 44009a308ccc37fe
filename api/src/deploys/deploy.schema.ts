/** JSON schemas of deploys and deploy keys. */
import { BRANCH, BRANCH_MAX_LENGTH, BUILD_NAME_MAX_LENGTH, BUILD_NAME_PATTERN, DNS_LABEL } from '@slipway/crds';
import Type from 'typebox';
import { Id, Nullable } from '../http/schema.js';

export const DeployKeyAnswer = Type.Object(
  {
    public_key: Type.String({ description: 'The public key in the form of OpenSSH, of the type ssh-ed25519.' }),
    fingerprint: Type.String({ description: 'The SHA256 fingerprint, as `ssh-keygen -l` prints it.' }),
    note: Type.String({ description: 'Instructions for adding the public key to the git host.' }),
  },
  { $id: 'DeployKey', additionalProperties: false },
);
export type DeployKeyAnswer = Type.Static<typeof DeployKeyAnswer>;

export const DeployQuery = Type.Object(
  {
    token: Type.Optional(
      Type.String({
        description: 'The webhook_secret of the project, in place of a bearer token.',
        examples: ['b7kP…'],
      }),
    ),
  },
  { additionalProperties: false },
);
export type DeployQuery = Type.Static<typeof DeployQuery>;

export const PushEvent = Type.Object(
  {
    ref: Type.Optional(Type.String({ description: 'The branch that was pushed, as refs/heads/main.' })),
    after: Type.Optional(
      Nullable(Type.String(), { description: 'The commit that was pushed; zeros: the branch was deleted.' }),
    ),
    deleted: Type.Optional(Type.Boolean({ description: 'The branch was deleted.' })),
  },
  { $id: 'PushEvent', additionalProperties: true, description: 'The push event of a git host; an empty body is none.' },
);

const BranchName = (description: string) =>
  Type.String({ maxLength: BRANCH_MAX_LENGTH, pattern: BRANCH.pattern, description, examples: ['next'] });

export const BranchDeploy = Type.Object(
  {
    branch: BranchName(`The branch to build: ${BRANCH.words}.`),
    preview: Type.Optional(
      Type.Boolean({ default: false, description: 'True: the build becomes the preview of the branch, not the site.' }),
    ),
  },
  { $id: 'BranchDeploy', additionalProperties: false },
);
export type BranchDeploy = Type.Static<typeof BranchDeploy>;

export const AppDeploy = Type.Object(
  {},
  { $id: 'AppDeploy', additionalProperties: false, description: 'Has no members; an empty body means the same.' },
);

export const AppRollback = Type.Object(
  {
    build: Type.Optional(
      Id('The number of a build that was deployed: 7 of build-7. Default: the version before the live one.'),
    ),
  },
  { $id: 'AppRollback', additionalProperties: false, description: 'An empty body means `{}`.' },
);
export type AppRollback = Type.Static<typeof AppRollback>;

export const DEFAULT_LINES = 200;

export const AppLogQuery = Type.Object(
  {
    lines: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 10_000,
        default: DEFAULT_LINES,
        description: 'Maximum number of lines. Without effect if `Last-Event-ID` is given.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type AppLogQuery = Type.Static<typeof AppLogQuery>;

export const PreviewQuery = Type.Object(
  { branch: BranchName('The branch whose preview is removed.') },
  { additionalProperties: false },
);
export type PreviewQuery = Type.Static<typeof PreviewQuery>;

export const Deployed = Type.Object(
  {
    ok: Type.Literal(true, { description: 'A build is queued, or none is needed.' }),
    message: Type.String({ description: 'The name of the build, and that it is queued; or why there is none.' }),
    build_id: Nullable(Type.Integer({ minimum: 1 }), {
      description: 'The number of the build that is queued or was queued before; null: there is none.',
    }),
    ignored: Type.Optional(Type.Literal(true, { description: 'The event builds nothing.' })),
  },
  { $id: 'Deployed', additionalProperties: false },
);
export type Deployed = Type.Static<typeof Deployed>;

export const BuildLog = Type.Object(
  {
    has_logs: Type.Boolean({ description: 'True if the output is that of a failed build.' }),
    raw: Type.String({ description: 'The whole output of the last failed build.' }),
    sections: Type.Array(
      Type.Object(
        {
          section: Type.String({ description: 'The step of the build.' }),
          content: Type.String({ description: 'The output of the step.' }),
        },
        { additionalProperties: false },
      ),
      { description: 'The output by steps.' },
    ),
  },
  { $id: 'BuildLog', additionalProperties: false },
);
export type BuildLog = Type.Static<typeof BuildLog>;

export const BuildPath = Type.Object({
  ref: Type.String({ maxLength: 63, pattern: `^${DNS_LABEL}$`, description: 'The name of the Project resource.' }),
  build: Type.String({
    maxLength: BUILD_NAME_MAX_LENGTH,
    pattern: BUILD_NAME_PATTERN,
    description: 'The name of the Build resource.',
  }),
});
export type BuildPath = Type.Static<typeof BuildPath>;

export const GitCredentials = Type.Object(
  {
    github_token: Nullable(Type.String(), { description: 'The git access token; null where the project has none.' }),
    deploy_key: Nullable(Type.String(), {
      description: 'The private key in the form of OpenSSH; null where the project has none.',
    }),
  },
  { $id: 'GitCredentials', additionalProperties: false },
);
export type GitCredentials = Type.Static<typeof GitCredentials>;

/** The log in the response before any build, and after a build that succeeded. */
export const NO_OUTPUT: BuildLog = { has_logs: false, raw: '', sections: [] };

export const DEPLOY_KEY_NOTE =
  'Add public_key to the repository as a deploy key that only reads. An earlier deploy key of the project is void.';

export const EXAMPLES = {
  credentials: { github_token: 'ghp_example', deploy_key: null },
  branch: { branch: 'main' },
  push: { ref: 'refs/heads/main', after: '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1', deleted: false },
  deployed: { ok: true, message: 'build-7 is queued', build_id: 7 },
  emptyLog: NO_OUTPUT,
  deployKey: {
    public_key:
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1sKPTPTyWbWNdFBjw5nLRgp7oWFp0yzEs9jJZ5BC0r slipway-qkzvhwmtyfbrnxgcalpe',
    fingerprint: 'SHA256:1dgR0pE6yZyt5RjvV7mJ2kS6vM1Rr2Ck0mzCk9mN4fY',
    note: DEPLOY_KEY_NOTE,
  },
};
