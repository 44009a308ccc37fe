/**
 * Services that run in pods of their own on a cluster, where each project has one pod. In: the list of the pods' URLs,
 * which is the same for every program. Out: the pod of a project, chosen by its ref alone, so that all programs choose
 * the same pod.
 */
import { createHash } from 'node:crypto';
import { HOSTING_STORE_PORT } from './names.js';

/**
 * Parses a list with one URL per pod: `http://slipway-realtime-0.slipway-realtime.slipway-system.svc:8080`. Throws an
 * error that names `variable`.
 */
export function readPodUrls(variable: string, list: string | undefined): string[] {
  const urls = (list ?? '')
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
  const wrong = urls.find((url) => !/^http:\/\/[^/?#@,]+$/.test(url) || !URL.canParse(url));
  if (wrong !== undefined) {
    throw new Error(
      `${variable} is a list such as http://pod-0:8080,http://pod-1:8080; ${JSON.stringify(wrong)} is no such URL`,
    );
  }
  return urls;
}

/** Rendezvous hashing: when the list gains or loses a pod, only that pod's projects move. */
export function podOf(ref: string, urls: readonly string[]): string {
  const weight = (url: string) => createHash('sha256').update(`${ref}\0${url}`).digest('hex');
  const [first = ''] = urls.length === 1 ? urls : urls.toSorted((a, b) => (weight(a) < weight(b) ? 1 : -1));
  return first;
}

/** Returns the origin of the store that has a project's deployments. `urls` are those of the pods of sites. */
export function storeOriginOf(ref: string, urls: readonly string[]): string {
  const url = new URL(podOf(ref, urls));
  url.port = String(HOSTING_STORE_PORT);
  return url.origin;
}
