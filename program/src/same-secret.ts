import { createHash, timingSafeEqual } from 'node:crypto';

/** Compares digests, so that the time reveals nothing of the secret, not even its length. */
export const isSameSecret = (presented: string, own: string): boolean =>
  timingSafeEqual(digestOf(presented), digestOf(own));

const digestOf = (text: string) => createHash('sha256').update(text).digest();
