/**
 * The one-machine Kubernetes API server. In: settings and a Postgres database. Out: an HTTPS server that kubectl and
 * client-node informers take for the real one, for the kinds it has. Started by the one-machine program; tests use
 * startTestApiServer.
 */
export { type Certificates, makeCertificates } from './certificate.js';
export { kubeconfigOf } from './kubeconfig.js';
export { type ApiServer, type ApiServerSettings, startApiServer } from './server.js';
export { startTestApiServer, type TestApiServer, type TestOptions } from './testing.js';
