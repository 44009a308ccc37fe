/**
 * The one-machine Kubernetes API server. In: settings and a Postgres database. Out: an HTTPS server that works with
 * kubectl and client-node informers like the real one, for the kinds it supports. The one-machine program starts it.
 * Tests import `./testing.js`.
 */
export { type Certificates, makeCertificates } from './certificate.js';
export { kubeconfigOf } from './kubeconfig.js';
export { type ApiServer, type ApiServerSettings, startApiServer } from './server.js';
