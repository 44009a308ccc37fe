/**
 * Refs of projects that REST creates: 20 random lowercase letters, the form that Supabase's own tools accept. In: what
 * creates a project under a ref. A ref that another project has is replaced by a new one.
 */
import { RANDOM_REF_LENGTH, randomLetters } from '@slipway/crds';

/** Thrown where another project has the ref: kubectl gives a project any name. */
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
