/**
 * The one-machine program: starts Postgres, the Kubernetes API, the REST API, the operator and the data plane, and
 * keeps them up. In: SLIPWAY_* settings. Out: a platform at one port. Called by `npm start`; tests run `main.js`
 * itself.
 */
export { kubernetesUrl } from './programs.js';
export { readSettings, type Settings } from './settings.js';
export { Supervisor } from './supervisor.js';
