/**
 * The end of a JWT secret's rotation: the next secret signs once every verifier takes its tokens. In: what the step of
 * keys found. Out: the condition CredentialsCurrent, where there is something to say. Killed anywhere, the next run
 * goes on from the Secret.
 */
import { type Project, SECRETS } from '@slipway/crds';
import { issueProbeKey } from './api-keys.js';
import { type Context, engineProject, ready, type StepOutcome } from './context.js';
import { promotedKeys } from './jwt-secrets.js';
import { keyWishes } from './keys.js';
import { pollDelay } from './poll-delay.js';
import { CREDENTIALS_CURRENT, tellRotated } from './rotation.js';
import { ensureSecret } from './secrets.js';

/** Being resumed tells of itself. */
const WHILE_SUSPENDED_MS = 180_000;
const MOST_MS = 30_000;

export async function finishRotation(context: Context): Promise<StepOutcome | undefined> {
  const { deps, ref, project, found } = context;
  const next = found.nextJwtSecret;
  if (next === undefined) return hasToldBefore(context) ? ready : undefined;
  if (project.spec.suspend) return rotating('waiting until spec.suspend is false', WHILE_SUSPENDED_MS);
  const anonKey = issueProbeKey(ref, next, deps.now());
  const accepted = await deps.engine.verifiersAccept({ project: engineProject(context), anonKey });
  if (accepted.state === 'progressing') {
    const limits = { least: accepted.lookAgainMs, most: MOST_MS };
    return rotating(accepted.message, pollDelay(beginningOf(project), deps.now(), limits));
  }
  if (accepted.state === 'failed') return accepted;
  await ensureSecret(context, SECRETS.keys.name, (held) => promotedKeys(held, next, keyWishes(context, undefined)));
  tellRotated(context, 'the JWT secret and the API keys are new; tokens of the secret before stay good until the next');
  return ready;
}

const rotating = (message: string, lookAgainMs: number): StepOutcome => ({
  state: 'progressing',
  reason: 'Rotating',
  message,
  lookAgainMs,
});

/** Undefined: it has just begun. */
const beginningOf = ({ status }: Project) =>
  status?.conditions?.find(({ type, status }) => type === CREDENTIALS_CURRENT && status === 'False')
    ?.lastTransitionTime;

const hasToldBefore = ({ project }: Context) =>
  project.status?.conditions?.some(({ type }) => type === CREDENTIALS_CURRENT) ?? false;
