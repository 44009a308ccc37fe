/**
 * The machine's own packet filter. It lets in SSH, HTTPS and pgbouncer, and keeps all accounts except root from the
 * provider's metadata service, which has the machine's user data.
 */
import { SETTINGS, UNIT_FOLDER } from './paths.js';
import type { Part } from './state.js';
import { rootFile } from './unit.js';

/** The ports that a machine serves: SSH, nginx, pgbouncer. */
export const PORTS = [22, 443, 6543];
export const FIREWALL_UNIT = 'slipway-firewall';
const RULES_FILE = `${SETTINGS}/firewall.nft`;

/** One transaction replaces the table, so that no packet passes between. */
const RULES = `table inet slipway
delete table inet slipway
table inet slipway {
  chain input {
    type filter hook input priority 0; policy drop;
    iif lo accept
    ct state established,related accept
    ct state invalid drop
    meta l4proto { icmp, ipv6-icmp } accept
    tcp dport { ${PORTS.join(', ')} } accept
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
  }
  chain output {
    type filter hook output priority 0; policy accept;
    ip daddr 169.254.169.254 meta skuid != 0 reject
  }
}
`;

const UNIT = `[Unit]
Description=Slipway: packet filter
DefaultDependencies=no
After=local-fs.target
Before=network-pre.target
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft --file ${RULES_FILE}

[Install]
WantedBy=multi-user.target
`;

export const firewall = (): Part => ({
  files: [rootFile(RULES_FILE, RULES), rootFile(`${UNIT_FOLDER}/${FIREWALL_UNIT}.service`, UNIT)],
  units: [{ name: FIREWALL_UNIT, isOwn: true, onChange: 'restart', files: [RULES_FILE] }],
});
