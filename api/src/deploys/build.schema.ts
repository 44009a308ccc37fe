/** JSON schemas of builds. */
import { BUILD_NAME_MAX_LENGTH, BUILD_PHASES, BUILD_STEPS, BUILD_TRIGGERS } from '@slipway/crds';
import Type from 'typebox';
import { Id, Nullable, oneOf, Time } from '../http/schema.js';

export const BuildId = Type.Object({
  id: Id('The id of the project.'),
  buildId: Id('The number of the build: 7 of build-7.'),
});
export type BuildId = Type.Static<typeof BuildId>;

const Step = Type.Object(
  {
    name: oneOf(BUILD_STEPS, { description: 'The name of the step.' }),
    started_at: Time('When it began.'),
    finished_at: Nullable(Time('When it ended.')),
    exit_code: Nullable(Type.Integer(), { description: 'The exit code of its command; null while it runs.' }),
  },
  { additionalProperties: false },
);

const Detected = Type.Object(
  {
    framework: Nullable(Type.String(), { description: 'The framework of a site.' }),
    node_version: Nullable(Type.String(), { description: 'The version of Node.' }),
    package_manager: Nullable(Type.String(), { description: 'The package manager, and its version.' }),
    install_command: Nullable(Type.String(), { description: 'The command that installed.' }),
    build_command: Nullable(Type.String(), { description: 'The command that built.' }),
    output_dir: Nullable(Type.String(), { description: 'The folder that was published.' }),
  },
  { additionalProperties: false },
);

export const BuildView = Type.Object(
  {
    id: Type.Integer({ minimum: 1, description: 'Its number among the builds of the project.' }),
    name: Type.String({ maxLength: BUILD_NAME_MAX_LENGTH, description: 'The name of its Build resource.' }),
    phase: oneOf(BUILD_PHASES, { description: 'The step it is in, or how it ended.' }),
    message: Type.String({ description: 'The reason to wait, or the problem.' }),
    trigger: oneOf(BUILD_TRIGGERS, { description: 'The origin of the request.' }),
    revision: Nullable(Type.String(), {
      description: 'A branch, tag or commit; null: the branch of the preview, else the production branch.',
    }),
    preview: Nullable(Type.String(), {
      description: 'The branch whose preview it is of; null: it is of the site or app.',
    }),
    commit: Nullable(Type.String(), { description: 'The commit that was built.' }),
    rollback_to: Nullable(Type.String(), { description: 'The build whose output it took live again.' }),
    live: Type.Boolean({ description: 'True if the site, the preview or the app runs its output now.' }),
    steps: Type.Array(Step, { description: 'The steps that have begun.' }),
    detected: Nullable(Detected, { description: 'The settings that the build used, set or detected.' }),
    created_at: Time('Time of its creation.'),
    started_at: Nullable(Time('When it began.')),
    finished_at: Nullable(Time('When it ended.')),
  },
  { $id: 'Build', additionalProperties: false },
);
export type BuildView = Type.Static<typeof BuildView>;

export const PreviewView = Type.Object(
  {
    branch: Type.String({ description: 'The branch that it shows.' }),
    url: Nullable(Type.String(), { description: 'Its address.' }),
    build_id: Nullable(Type.Integer(), { description: 'The number of the build that made it.' }),
    commit: Nullable(Type.String(), { description: 'The commit that it shows.' }),
    bytes: Nullable(Type.Integer(), { description: 'Bytes of its files.' }),
    deployed_at: Nullable(Time('Time of the deploy.')),
  },
  { $id: 'Preview', additionalProperties: false },
);
export type PreviewView = Type.Static<typeof PreviewView>;

export const EXAMPLE_PREVIEW: PreviewView = {
  branch: 'feature/cart',
  url: 'http://x7c2m5tq4zr6wk3nvd2p--qkzvhwmtyfbrnxgcalpe.localhost:4000',
  build_id: 8,
  commit: '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1',
  bytes: 482_113,
  deployed_at: '2026-05-04T10:00:14Z',
};

export const EXAMPLE_BUILD: BuildView = {
  id: 7,
  name: 'build-7',
  phase: 'Deployed',
  message: 'it is live',
  trigger: 'webhook',
  revision: null,
  preview: null,
  commit: '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1',
  rollback_to: null,
  live: true,
  steps: [
    { name: 'Cloning', started_at: '2026-05-04T10:00:00Z', finished_at: '2026-05-04T10:00:01Z', exit_code: 0 },
    { name: 'Installing', started_at: '2026-05-04T10:00:01Z', finished_at: '2026-05-04T10:00:09Z', exit_code: 0 },
    { name: 'Building', started_at: '2026-05-04T10:00:09Z', finished_at: '2026-05-04T10:00:14Z', exit_code: 0 },
  ],
  detected: {
    framework: 'vite',
    node_version: '24.9.0',
    package_manager: 'npm 11.6.0',
    install_command: 'npm ci',
    build_command: 'npm run build',
    output_dir: 'dist',
  },
  created_at: '2026-05-04T09:59:58Z',
  started_at: '2026-05-04T10:00:00Z',
  finished_at: '2026-05-04T10:00:14Z',
};
