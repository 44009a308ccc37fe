/**
 * The one-machine program: starts Postgres, the Kubernetes API, the REST API, the operator and the data plane, and
 * restarts them when they end. In: SLIPWAY_* settings. Out: a platform at one port. `npm start` and the tests run
 * `main.js`.
 */
export { kubernetesUrl } from './programs.js';
export { readSettings, type Settings } from './settings.js';
export { Supervisor } from './supervisor.js';
