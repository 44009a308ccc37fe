/**
 * Connections to hosts in a project's settings: hooks, providers and mail servers. In: settings. Out: an Outbound that
 * refuses addresses which are not public, unless the installation allows their networks. The platform's own public URL
 * is allowed by its name, so that a hook may be a function of the project.
 */
import { type TenantReachOptions, tenantReach } from '@slipway/installation';
import { type Outbound, outboundTo } from '@slipway/program/outbound.js';

export function tenantOutbound(options: TenantReachOptions): Outbound {
  const { allows, reason } = tenantReach(options);
  return outboundTo(allows, reason);
}
