/**
 * Creates a bucket that the anonymous role may write, and returns its URLs. Used by the benches `storage`, `releases`.
 */
import type { ProjectView } from '@slipway/e2e/management.js';
import type { Platform } from '../platform.js';
import type { TransferJob } from './transfers.js';

const BUCKET = 'bench';

export async function openBucket(
  platform: Platform,
  project: ProjectView,
): Promise<Pick<TransferJob, 'baseUrl' | 'headers' | 'clear'>> {
  const { baseUrl, anonKey } = platform.served(project);
  const bucket = await fetch(`${baseUrl}/storage/v1/bucket`, {
    method: 'POST',
    headers: { authorization: `Bearer ${project.service_role_key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: BUCKET }),
  });
  if (!bucket.ok) throw new Error(`the bucket was not created: ${await bucket.text()}`);
  await platform.query(
    project,
    `create policy bench on storage.objects for all to anon
       using (bucket_id = '${BUCKET}') with check (bucket_id = '${BUCKET}');
     create policy bench on storage.buckets for select to anon using (id = '${BUCKET}')`,
  );
  return {
    baseUrl: `${baseUrl}/storage/v1/object/${BUCKET}/`,
    headers: { authorization: `Bearer ${anonKey}` },
    clear: ['POST', `${new URL(baseUrl).pathname}/storage/v1/bucket/${BUCKET}/empty`],
  };
}
