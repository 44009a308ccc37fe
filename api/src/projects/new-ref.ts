/**
 * Chooses refs of projects that REST creates: 20 random lowercase letters, the form that Supabase's tools accept. In: a
 * function that creates a project under a ref. If another project has that ref, the function is called again with
 * another ref.
 */
import { RANDOM_REF_LENGTH, randomLetters } from '@slipway/installation';

/** Thrown if another project has the ref, as kubectl may choose any name. */
export class RefTaken extends Error {}

const TRIES = 3;

export async function withNewRef<T>(
  create: (ref: string) => Promise<T>,
  newRef = () => randomLetters(RANDOM_REF_LENGTH),
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await create(newRef());
    } catch (error) {
      if (!(error instanceof RefTaken) || tries === TRIES) throw error;
    }
  }
}
