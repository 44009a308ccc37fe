/** Tests the rules of the packet filter in a network namespace of its own, which needs root and nftables. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { firewall } from './firewall.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-firewall-'));
const rules = path.join(folder, 'rules.nft');
const [file] = firewall().files;
writeFileSync(rules, file?.content ?? '');

const inNamespace = (script: string) =>
  spawnSync('unshare', ['--net', 'sh', '-euc', `ip link set lo up; ${script}`], { encoding: 'utf8', timeout: 30_000 });

const isAble = inNamespace('nft list ruleset').status === 0;
if (!isAble) console.log('# skipped: it needs root, ip and nft');
const able = isAble ? test : test.skip;

/** The exit code of curl is 7 for a refused connection, and 28 for a dropped packet. */
const CODE = '--silent --max-time 3';

able('only root reaches the metadata service, also after the rules were loaded twice', () => {
  const { stdout, stderr } = inNamespace(`
    ip addr add 169.254.169.254/32 dev lo
    nft --file ${rules}; nft --file ${rules}
    ${process.execPath} --eval 'require("node:http").createServer((_, r) => r.end("data")).listen(80)' & server=$!
    until curl ${CODE} http://127.0.0.1/; do sleep 0.1; done; echo
    curl ${CODE} http://169.254.169.254/; echo
    setpriv --reuid=65534 --clear-groups curl ${CODE} http://127.0.0.1/; echo
    setpriv --reuid=65534 --clear-groups curl ${CODE} http://169.254.169.254/ || echo "refused $?"
    kill $server`);
  assert.is(stdout, 'data\ndata\ndata\nrefused 7\n', stderr);
});

able('other machines reach the ports of SSH, HTTPS and pgbouncer alone', () => {
  const server = `for (const port of [22, 443, 6543, 80, 5432]) {
    require("node:http").createServer((_, r) => r.end()).listen(port);
  }`;
  const { stdout, stderr } = inNamespace(`
    unshare --net sleep 30 & other=$!; sleep 0.5
    ip link add name here type veth peer name there netns $other
    ip addr add 10.9.0.1/24 dev here; ip link set here up
    nsenter --net --target $other sh -c 'ip addr add 10.9.0.2/24 dev there; ip link set there up'
    nft --file ${rules}
    ${process.execPath} --eval '${server}' & server=$!
    until curl ${CODE} http://127.0.0.1:5432/; do sleep 0.1; done
    for port in 22 443 6543 80 5432; do
      nsenter --net --target $other curl ${CODE} http://10.9.0.1:$port/ && echo "$port open" || echo "$port $?"
    done
    kill $server $other`);
  assert.is(stdout, '22 open\n443 open\n6543 open\n80 28\n5432 28\n', stderr);
});

able('the list of rules is the same after each load, and another one when a rule was removed', () => {
  const { stdout, stderr } = inNamespace(`
    list() { nft --stateless list table inet slipway | sha256sum; }
    nft --file ${rules}; list
    nft --file ${rules}; list
    nft flush chain inet slipway output; list`);
  const [first, second, third] = stdout.trim().split('\n');
  assert.is(second, first, stderr);
  assert.is.not(third, first);
});

test.after(() => rmSync(folder, { recursive: true }));

test.run();
