/** Firewalls at the provider: rules for inbound connections to the machines that they are applied to. */
import type { FirewallRequest, InboundRule } from '../provider.js';
import { type HetznerClient, pathOf } from './client.js';
import { createOnce, findByLabels } from './create-once.js';
import { type Rule, responses } from './schemas.js';

const ruleOf = (rule: InboundRule): Rule => ({
  direction: 'in',
  protocol: rule.protocol,
  source_ips: [...rule.sources],
  ...(rule.protocol !== 'icmp' && { port: rule.ports }),
});

/** Returns a text that is equal for equal rules: their order, and that of sources, has no effect. */
const canonical = (rules: readonly Rule[]): string =>
  rules
    .map(({ direction, protocol, port, source_ips = [] }) => [
      direction,
      protocol,
      port ?? '',
      ...source_ips.toSorted(),
    ])
    .map((parts) => parts.join(' '))
    .toSorted()
    .join('\n');

export async function ensureFirewall(
  client: HetznerClient,
  request: FirewallRequest,
  signal: AbortSignal,
): Promise<string> {
  const { name, labels } = request;
  const rules = request.rules.map(ruleOf);
  const call = {
    method: 'POST',
    path: '/firewalls',
    body: { name, labels, rules },
    response: responses.firewall,
    repeatable: false,
  } as const;
  const create = async (abort: AbortSignal) => (await client.request(call, abort)).firewall;
  const found =
    (await findByLabels(client, 'firewalls', labels, signal)) ??
    (await createOnce(client, { kind: 'firewalls', name, labels, create }, signal));
  if (canonical(found.rules) !== canonical(rules)) await setRules(client, String(found.id), rules, signal);
  return String(found.id);
}

async function setRules(client: HetznerClient, id: string, rules: readonly Rule[], signal: AbortSignal): Promise<void> {
  const path = `${pathOf('firewalls', id)}/actions/set_rules`;
  const call = { method: 'POST', path, body: { rules }, response: responses.actions, repeatable: true } as const;
  const { actions } = await client.request(call, signal);
  for (const action of actions) await client.finish(action, signal);
}
