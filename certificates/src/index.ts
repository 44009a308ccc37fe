/**
 * TLS certificates of one machine. The operator orders them at a certificate authority and writes them into a folder.
 * The data plane reads the folder, and uses them in handshakes. The protocol of authorities is in `acme-authority.js`,
 * which only the program that places orders loads.
 */
export type { AcmeSettings } from './authority.js';
export { CertificateOrders, type CertificateState } from './certificate-orders.js';
export { CertificateFolder } from './folder.js';
export type { WantedHost } from './order-plan.js';
export { SecureContexts, type SecureContextsOptions } from './secure-contexts.js';
