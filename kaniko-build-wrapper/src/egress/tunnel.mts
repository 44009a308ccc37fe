/**
 * Runs as ssh's ProxyCommand in a sealed clone. Connects standard input and output to a host through the egress proxy.
 * In: the path of the proxy's socket, a host and a port.
 */
import { request } from 'node:http';

const [socketPath = '', host = '', port = ''] = process.argv.slice(2);
const target = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
const tunnel = request({ socketPath, method: 'CONNECT', path: target });
tunnel.once('connect', (response, connection, head) => {
  if (response.statusCode !== 200) {
    process.stderr.write(head);
    connection.on('data', (chunk) => process.stderr.write(chunk));
    return void connection.once('close', () => process.exit(1));
  }
  process.stdout.write(head);
  connection.pipe(process.stdout);
  process.stdin.pipe(connection);
  connection.once('close', () => process.exit());
  connection.once('error', () => process.exit(1));
});
tunnel.once('error', ({ message }) => {
  process.stderr.write(`The egress proxy does not respond: ${message}\n`);
  process.exit(1);
});
tunnel.end();
