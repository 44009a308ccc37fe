/**
 * The last container of a build's pod. Unpacks the output from Kaniko's image and uploads it to the store of sites. In:
 * an order, whose token is only for this build. Out: warnings on standard output, and a termination message.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { OutputRefused, publishTo } from '@slipway/sites';
import { Refused } from '../request.js';
import { unpackOutput } from './oci-layout.js';
import { type Ending, IMAGE, type PublishOrder } from './order.js';

/** Rejects if the failure is the platform's, not the project's. */
export async function publishImage(
  { egressUrl: origin, token, ref, build, limits }: PublishOrder,
  { image = IMAGE, out = process.stdout }: { image?: string; out?: NodeJS.WritableStream } = {},
): Promise<Ending> {
  const folder = mkdtempSync(path.join(tmpdir(), 'output-'));
  try {
    const leftOut = await unpackOutput(image, folder, limits);
    for (const line of leftOut) out.write(`slipway: ${line}\n`);
    const { warnings, bytes } = await publishTo({ origin, token, ref, build }, folder, limits);
    for (const warning of warnings) out.write(`slipway: ${warning}\n`);
    return { kind: 'published', bytes };
  } catch (error) {
    if (!(error instanceof Refused) && !(error instanceof OutputRefused)) throw error;
    out.write(`\nslipway: ${error.message}\n`);
    return { kind: 'refused', message: error.message };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
