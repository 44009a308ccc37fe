/** SCRAM-SHA-256 as Postgres stores it (RFC 5803), made here so that no SQL ever holds a password. */
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const ITERATIONS = 4096;
const derive = promisify(pbkdf2);
const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();

/** Returns the verifier for `ALTER ROLE … PASSWORD`. `password` is ASCII, so that SASLprep would not change it. */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const salted = await derive(password, salt, ITERATIONS, 32, 'sha256');
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest();
  const serverKey = hmac(salted, 'Server Key');
  const text = (bytes: Buffer) => bytes.toString('base64');
  return `SCRAM-SHA-256$${ITERATIONS}:${text(salt)}$${text(storedKey)}:${text(serverKey)}`;
}

/** Whether `verifier`, as pg_authid has it, is of `password`. */
export async function verifierMatches(verifier: string | null, password: string): Promise<boolean> {
  const salt = verifier?.match(/^SCRAM-SHA-256\$4096:([A-Za-z0-9+/=]+)\$/)?.[1];
  if (!verifier || !salt) return false;
  const expected = Buffer.from(await scramVerifier(password, Buffer.from(salt, 'base64')));
  const actual = Buffer.from(verifier);
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}
