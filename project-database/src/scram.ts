/** Makes SCRAM-SHA-256 verifiers as Postgres stores them (RFC 5803), so that no SQL contains a password. */
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const ITERATIONS = 4096;
const derive = promisify(pbkdf2);
const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();

/** Returns the verifier for `ALTER ROLE … PASSWORD`. `password` must be ASCII, which SASLprep would not change. */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const salted = await derive(password, salt, ITERATIONS, 32, 'sha256');
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest();
  const serverKey = hmac(salted, 'Server Key');
  const text = (bytes: Buffer) => bytes.toString('base64');
  return `SCRAM-SHA-256$${ITERATIONS}:${text(salt)}$${text(storedKey)}:${text(serverKey)}`;
}

/** True if `verifier`, in the form of pg_authid, matches `password`. */
export async function verifierMatches(verifier: string | null, password: string): Promise<boolean> {
  const salt = verifier?.match(/^SCRAM-SHA-256\$4096:([A-Za-z0-9+/=]+)\$/)?.[1];
  if (!verifier || !salt) return false;
  const expected = Buffer.from(await scramVerifier(password, Buffer.from(salt, 'base64')));
  const actual = Buffer.from(verifier);
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}
