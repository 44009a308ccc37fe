/**
 * Reads warnings that the cluster's controllers report only in Events. For example, a StatefulSet whose pods are
 * rejected has no message in its status.
 */
import type { KubeClient } from '@slipway/kubernetes';

interface EventList {
  items: { type?: string; message?: string; lastTimestamp?: string | null; eventTime?: string | null }[];
}

/** Returns the latest warning. */
export async function warningOf(
  client: KubeClient,
  { kind, namespace, name }: { kind: string; namespace: string; name: string },
): Promise<string | undefined> {
  const { items } = await client.get<EventList>(`/api/v1/namespaces/${namespace}/events`, {
    fieldSelector: `type=Warning,involvedObject.kind=${kind},involvedObject.name=${name}`,
    limit: '50',
  });
  const at = ({ lastTimestamp, eventTime }: EventList['items'][number]) => lastTimestamp ?? eventTime ?? '';
  return items.toSorted((a, b) => (at(a) < at(b) ? 1 : -1))[0]?.message;
}
