/**
 * nginx of Debian, with a configuration of ours: each service at its path, over TLS at port 443 for clients, and over
 * plain HTTP at loopback for requests of functions to the project's URL.
 */
import { CERTIFICATE, PRIVATE_KEY, SETTINGS, socketOf } from './paths.js';
import { pem } from './quoting.js';
import type { ServiceUnit } from './service.js';
import { memoryMax } from './sizes.js';
import type { MachineFile, Part, StateRequest } from './state.js';
import { rootFile, unitFile } from './unit.js';

const UNIT = 'slipway-nginx';
const SETTINGS_FILE = `${SETTINGS}/nginx/nginx.conf`;

const LOCAL_ADDRESS = '127.0.0.1:8000';
export const LOCAL_URL = `http://${LOCAL_ADDRESS}`;

const PATHS: [path: string, service: ServiceUnit][] = [
  ['auth', 'auth'],
  ['rest', 'postgrest'],
  ['storage', 'storage'],
  ['realtime', 'realtime'],
  ['functions', 'functions'],
];

const LOCATIONS = PATHS.map(
  ([path, service]) => `
    location ~ ^(?:/p/[^/]+)?/${path}/v1(?:/|$) {
      proxy_pass http://unix:${socketOf(service)}:;
      error_page 502 504 = @${service}-unavailable;
    }
    location @${service}-unavailable {
      internal;
      add_header Retry-After 2 always;
      return 502 '{"message":"The service ${service} is not running. It restarts by itself; try again."}';
    }`,
).join('');

const SETTINGS_TEXT = `worker_processes auto;
daemon off;
pid /run/slipway/nginx/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  server_tokens off;
  default_type application/json;
  types { }
  client_body_temp_path /run/slipway/nginx/body;
  proxy_temp_path /run/slipway/nginx/proxy;
  fastcgi_temp_path /run/slipway/nginx/fastcgi;
  uwsgi_temp_path /run/slipway/nginx/uwsgi;
  scgi_temp_path /run/slipway/nginx/scgi;
  map $http_upgrade $connection_header { default upgrade; '' ''; }
  server {
    listen 443 ssl http2;
    listen [::]:443 ssl http2;
    listen ${LOCAL_ADDRESS};
    ssl_certificate ${CERTIFICATE};
    ssl_certificate_key ${PRIVATE_KEY};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:tls:4m;
    # Uploads and responses of any size pass through, and are stored nowhere.
    client_max_body_size 0;
    proxy_request_buffering off;
    proxy_buffering off;
    proxy_http_version 1.1;
    proxy_connect_timeout 5s;
    proxy_read_timeout 1h;
    proxy_send_timeout 1h;
    proxy_set_header Host $http_host;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_header;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto https;
    location / { return 404 '{"message":"No service has this path."}'; }${LOCATIONS}
  }
}
`;

export function nginx({ machine, certificate }: StateRequest): Part {
  const key: MachineFile = {
    path: PRIVATE_KEY,
    mode: 0o640,
    owner: 'root:slipway-tls',
    content: pem(certificate.privateKey, 'PRIVATE KEY'),
  };
  const files = [
    rootFile(SETTINGS_FILE, SETTINGS_TEXT),
    rootFile(CERTIFICATE, pem(certificate.chain, 'CERTIFICATE')),
    key,
  ];
  return {
    files: [...files, unitOf(memoryMax(machine, 'nginx'))],
    units: [{ name: UNIT, isOwn: true, onChange: 'reload', files: files.map(({ path }) => path) }],
  };
}

const unitOf = (memory: string) =>
  unitFile({
    name: UNIT,
    description: 'Slipway: nginx',
    after: [],
    user: 'slipway-nginx',
    group: 'slipway-nginx',
    memoryMax: memory,
    tasksMax: 64,
    lines: [
      'AmbientCapabilities=CAP_NET_BIND_SERVICE',
      'CapabilityBoundingSet=CAP_NET_BIND_SERVICE',
      `ExecStart=/usr/sbin/nginx -e stderr -c ${SETTINGS_FILE}`,
      `ExecReload=/usr/sbin/nginx -e stderr -c ${SETTINGS_FILE} -t -q`,
      'ExecReload=/bin/kill -HUP $MAINPID',
      'KillSignal=SIGQUIT',
      'TimeoutStopSec=10s',
      'LimitNOFILE=16384',
      'RuntimeDirectory=slipway/nginx',
    ],
  });
