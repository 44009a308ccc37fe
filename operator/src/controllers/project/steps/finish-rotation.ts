/**
 * Step that ends a rotation of the JWT secret: the next secret signs once every verifier accepts its tokens. In: the
 * result of the step of keys. Out: the condition CredentialsCurrent, if there is anything to report. After an
 * interruption at any point, the next run continues from the Secret.
 */
import { isSuspended, type Project } from '@slipway/crds';
import { SECRETS } from '@slipway/installation';
import type { ProjectServices } from '../../../capabilities/index.js';
import { issueProbeKey } from '../api-keys.js';
import { type Context, engineProject, ready, type StepOutcome } from '../context.js';
import { promotedKeys } from '../jwt-secrets.js';
import { pollDelay } from '../poll-delay.js';
import { CREDENTIALS_CURRENT, reportRotated } from '../rotation.js';
import { ensureSecret } from '../secrets.js';
import { keyRequest } from './keys.js';

/** Milliseconds between checks while the project is suspended. A resume starts a reconcile itself. */
const WHILE_SUSPENDED_MS = 180_000;
const MOST_MS = 30_000;

/** `next`: the next JWT secret. Undefined: there is no rotation. */
export async function finishRotation(
  context: Context,
  services: ProjectServices,
  next: string | undefined,
): Promise<StepOutcome | undefined> {
  const { deps, ref, project } = context;
  if (next === undefined) return hasReportedBefore(context) ? ready : undefined;
  if (isSuspended(project)) return rotating('waiting until the project is resumed', WHILE_SUSPENDED_MS);
  const anonKey = issueProbeKey(ref, next, deps.now());
  const accepted = await services.verifiersAccept({ project: engineProject(context), anonKey });
  if (accepted.state === 'progressing') {
    const limits = { least: accepted.lookAgainMs, most: MOST_MS };
    return rotating(accepted.message, pollDelay(beginningOf(project), deps.now(), limits));
  }
  if (accepted.state === 'failed') return accepted;
  const request = keyRequest(context, undefined);
  await ensureSecret(context, SECRETS.keys.name, (stored) => promotedKeys(stored, next, request));
  const news = 'the JWT secret and the API keys are new';
  reportRotated(context, `${news}; tokens of the former secret stay valid until the next rotation`);
  return ready;
}

const rotating = (message: string, lookAgainMs: number): StepOutcome => ({
  state: 'progressing',
  reason: 'Rotating',
  message,
  lookAgainMs,
});

/** Returns the start of the rotation. Undefined: it has just begun. */
const beginningOf = ({ status }: Project) =>
  status?.conditions?.find(({ type, status }) => type === CREDENTIALS_CURRENT && status === 'False')
    ?.lastTransitionTime;

const hasReportedBefore = ({ project }: Context) =>
  project.status?.conditions?.some(({ type }) => type === CREDENTIALS_CURRENT) ?? false;
