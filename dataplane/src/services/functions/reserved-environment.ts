/**
 * Environment variables that Deno, its TLS and proxy code, the C library or the allocator read. Deno calls `setenv` for
 * a function's changes, so these would affect native code: a log of TLS keys, a proxy, another resolver. Functions can
 * neither see nor set them. Used for an isolate's permissions and environment.
 */

/** Names of reserved variables. A trailing `*` matches every name with that prefix, which is Deno's own notation. */
export const RESERVED_VARIABLES: readonly string[] = [
  ...['SSLKEYLOGFILE', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'],
  ...['DENO_*', 'OTEL_DENO*', 'JSR_URL', 'NPM_CONFIG_*', 'npm_config_*', 'NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS'],
  ...['NODE_TLS_REJECT_UNAUTHORIZED', 'NODE_USE_ENV_PROXY', 'NODE_V8_COVERAGE', 'NODE_CHANNEL_*', 'NODE_DEBUG*'],
  ...['NODE_PATH', 'NODE_PENDING_*', 'NODE_UNIQUE_ID', 'UV_*', 'RUST_*', 'LD_*', 'DYLD_*', 'MALLOC_*', 'MIMALLOC_*'],
  ...['GLIBC_TUNABLES', 'GCONV_PATH', 'LOCPATH', 'NLSPATH', 'HOSTALIASES', 'LOCALDOMAIN', 'RES_OPTIONS', 'RESOLV_*'],
  'TZDIR',
];

const isReserved = (name: string) =>
  RESERVED_VARIABLES.some((reserved) =>
    reserved.endsWith('*') ? name.startsWith(reserved.slice(0, -1)) : name === reserved,
  );

/** Splits a project's variables into those that its functions get and the names of the ignored ones. */
export function withoutReserved(environment: Record<string, string>) {
  const ignored = Object.keys(environment).filter(isReserved);
  const allowed = Object.fromEntries(Object.entries(environment).filter(([name]) => !isReserved(name)));
  return { environment: allowed, ignored };
}
