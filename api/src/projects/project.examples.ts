import { DEFAULT_TYPE } from '@slipway/crds';
import type { FullProject, ListedProject, ProjectStatusAnswer } from './project.schema.js';

const listed: ListedProject = {
  id: 12,
  ref: 'qkzvhwmtyfbrnxgcalpe',
  name: 'my-shop',
  region: 'eu-central',
  plan: 'free',
  backend_type: DEFAULT_TYPE,
  status: 'healthy',
  provision_message: 'Ready',
  retain: false,
  suspended_by: null,
  created_at: '2026-01-05T09:00:00Z',
  updated_at: '2026-01-05T09:00:00Z',
  project_url: 'http://localhost:4000/p/qkzvhwmtyfbrnxgcalpe',
  postgrest_url: 'http://localhost:4000/p/qkzvhwmtyfbrnxgcalpe/rest/v1',
  repo_url: null,
  build_command: 'npm run build',
  output_dir: 'dist',
  root_dir: '.',
  git_submodules: false,
  previews: false,
  install_command: 'npm install',
  production_branch: 'main',
  email_notifications: false,
  forms_enabled: false,
  mcp_writes: false,
  health_check_path: null,
  database_project: null,
  has_github_token: false,
};

const full: FullProject = {
  ...listed,
  db_url: 'postgresql://postgres.db_wnxqhkzvmtyfbrgcalpe:…@localhost:4002/p-db_wnxqhkzvmtyfbrgcalpe',
  anon_key: 'eyJhbGciOiJIUzI1NiJ9.…',
  service_role_key: 'eyJhbGciOiJIUzI1NiJ9.…',
  webhook_secret: 'b7kP…',
  webhook_url: 'http://localhost:4000/projects/12/deploy?token=b7kP…',
  env_vars: { GREETING: 'hello' },
  slack_webhook: null,
};

const status: ProjectStatusAnswer = {
  status: 'healthy',
  message: 'Ready',
  services: {
    database: { up: true, status: 'running', endpoint: null },
    auth: { up: true, status: 'running', endpoint: `${listed.project_url}/auth/v1` },
    storage: {
      up: false,
      status: 'unavailable',
      endpoint: null,
      reason: 'storage is not available here: shared projects of this installation have no storage.',
    },
  },
  conditions: [
    {
      type: 'Ready',
      status: 'True',
      reason: 'Provisioned',
      message: 'All parts are up',
      last_transition_time: '2026-01-05T09:00:01Z',
    },
  ],
};

const provisioning: FullProject = {
  ...full,
  status: 'provisioning',
  provision_message: '',
  db_url: null,
  anon_key: null,
  service_role_key: null,
  webhook_secret: null,
  webhook_url: null,
  env_vars: {},
};

export const EXAMPLES = {
  list: [listed],
  full,
  provisioning,
  status,
  creation: {
    shared: { name: 'my-shop' },
    'moving here': {
      name: 'my-shop',
      region: 'eu-west',
      jwt_secret: 'super-secret-jwt-token-with-at-least-32-characters',
    },
  },
  change: {
    settings: { repo_url: 'https://github.com/ada/my-shop.git', env_vars: { GREETING: 'hello' }, slack_webhook: null },
  },
};
