/**
 * Decides which images of auth and rest each project gets. New default images spread in batches and stop at the first
 * failure. In: the cached Deployments and pods. Out: a project's images, their condition, and the projects whose turn
 * it is. Called by the services.
 */

import { LABEL_PART, LABEL_PROJECT, namespaceOf, PART_AUTH, PART_REST, type Site } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import type { EngineOutcome, EnginePart } from '../../../capabilities/index.js';
import type { Children } from '../children/children.js';
import { diagnose, isUpToDate, type Workload } from '../children/diagnosis.js';
import type { Pod } from '../children/kinds.js';
import { planRollout, type RolloutPlan, type Standing } from './plan.js';

export type Images = Pick<Site['images'], 'auth' | 'rest'>;
type Part = keyof Images;

/** Annotation with the requested image, because the image in the Deployment may have been edited. */
export const ANNOTATION_IMAGE = 'slipway.dev/image';
const CONDITION = 'ImagesCurrent';
const PARTS: readonly Part[] = [PART_AUTH, PART_REST];
/**
 * Milliseconds between checks. A project is queued as soon as its turn comes, so the checks only cover a lost event.
 */
const LOOK_AGAIN_MS = 60_000;
/** Milliseconds for which changes are gathered, because they come in groups. */
const GATHER_MS = 50;

/** The part of the cluster's objects that a rollout reads. */
export type Seen = Pick<Children, 'all' | 'get' | 'list' | 'onChange'>;

type Deployments = Partial<Record<Part, Workload>>;

export class Rollout {
  readonly #children: Seen;
  readonly #images: Images;
  readonly #batch: number;
  #gathering: NodeJS.Timeout | undefined;
  /** The halt at the last report: waiting projects are queued only when it changes. */
  #reportedHalt: string | undefined;

  constructor(children: Seen, { images, rollout }: Pick<Site, 'images' | 'rollout'>) {
    this.#children = children;
    this.#images = { auth: images.auth, rest: images.rest };
    this.#batch = rollout.batch;
  }

  /** Returns the images that the project should run, and the report about them. */
  of(ref: string): { images: Images; part: EnginePart } {
    const deployments = this.#deploymentsOf(ref);
    const reportOf = (images: Images, outcome: EngineOutcome) => ({
      images,
      part: { condition: CONDITION, outcome, advisory: true },
    });
    if (this.#isCurrent(deployments)) return reportOf(this.#images, this.#reached(ref, deployments));
    const plan = this.#plan();
    if (plan.chosen.has(ref)) return reportOf(this.#images, ROLLING_OUT);
    return reportOf(this.#presentImages(deployments), waiting(plan));
  }

  /**
   * Calls `listener` with each project whose turn has come. When a failure begins or ends a halt, calls it with all
   * waiting projects.
   */
  onTurn(listener: (ref: string) => void): void {
    this.#children.onChange(() => {
      this.#gathering ??= setTimeout(() => {
        this.#gathering = undefined;
        this.#notify(listener);
      }, GATHER_MS).unref();
    });
  }

  /** Returns the number of projects by state, for metrics. */
  counts(): RolloutPlan['counts'] {
    return this.#plan().counts;
  }

  close(): void {
    clearTimeout(this.#gathering);
  }

  #notify(listener: (ref: string) => void): void {
    const { chosen, waiting, halt } = this.#plan();
    const isNews = halt?.ref !== this.#reportedHalt;
    this.#reportedHalt = halt?.ref;
    for (const ref of isNews ? [...waiting, ...(halt ? [halt.ref] : [])] : chosen) listener(ref);
  }

  #plan(): RolloutPlan {
    return planRollout(
      [...this.#deployments()].map(([ref, deployments]) => this.#standing(ref, deployments)),
      this.#batch,
    );
  }

  #standing(ref: string, deployments: Deployments): Standing {
    const isCurrent = this.#isCurrent(deployments);
    const unready = PARTS.filter((part) => deployments[part] && !isUpToDate(deployments[part]));
    if (unready.length === 0) return { ref, isCurrent, state: 'well' };
    const pods = this.#children.list<Pod>('Pod', ref);
    const failure = unready
      .map((part) => this.#diagnose(part, deployments, pods))
      .find(({ state }) => state === 'failed');
    return failure?.state === 'failed'
      ? { ref, isCurrent, state: 'failed', why: failure.message }
      : { ref, isCurrent, state: 'underway' };
  }

  #diagnose(part: Part, deployments: Deployments, pods: readonly Pod[]): EngineOutcome {
    const deployment = deployments[part] as Workload;
    // Until the Deployment controller has seen the new image, the status and the pods are those of the former image.
    const isSeen = (deployment.status?.observedGeneration ?? 0) >= (deployment.metadata.generation ?? 0);
    const own = pods.filter(({ metadata }) => metadata.labels?.[LABEL_PART] === part);
    return diagnose(part, isSeen ? deployment : undefined, own);
  }

  #isCurrent(deployments: Deployments): boolean {
    return PARTS.every((part) => !deployments[part] || imageOf(deployments[part]) === this.#images[part]);
  }

  #presentImages(deployments: Deployments): Images {
    const image = (part: Part) => (deployments[part] && imageOf(deployments[part])) ?? this.#images[part];
    return { auth: image(PART_AUTH), rest: image(PART_REST) };
  }

  #reached(ref: string, deployments: Deployments): EngineOutcome {
    const { state, why } = this.#standing(ref, deployments);
    if (state === 'well') return { state: 'ready', value: undefined };
    if (state === 'underway') return ROLLING_OUT;
    const message = `${why}${this.#plan().halt ? '; no other project gets the images until it is healthy' : ''}`;
    return { state: 'failed', reason: 'RolloutFailed', message, retry: false };
  }

  #deploymentsOf(ref: string): Deployments {
    const found = PARTS.map(
      (part) => [part, this.#children.get<Workload>('Deployment', namespaceOf(ref), part)] as const,
    );
    return Object.fromEntries(found.filter(([, deployment]) => deployment !== undefined));
  }

  /** Returns the Deployments by project. */
  #deployments(): Map<string, Deployments> {
    const all = new Map<string, Deployments>();
    for (const deployment of this.#children.all<Workload>('Deployment')) {
      const { [LABEL_PROJECT]: ref, [LABEL_PART]: part } = deployment.metadata.labels ?? {};
      if (!ref || !PARTS.includes(part as Part) || deployment.metadata.deletionTimestamp) continue;
      // A person who may create Deployments can set any label on them.
      if (deployment.metadata.namespace !== namespaceOf(ref) || deployment.metadata.name !== part) continue;
      all.set(ref, { ...all.get(ref), [part as Part]: deployment });
    }
    return all;
  }
}

const ROLLING_OUT: EngineOutcome = {
  state: 'progressing',
  reason: 'RollingOut',
  message: 'the pods of auth and rest are being replaced',
  lookAgainMs: LOOK_AGAIN_MS,
};

function waiting({ halt }: RolloutPlan): EngineOutcome {
  if (!halt) {
    const message = 'the project waits for its turn to get the new images of auth and rest';
    return { state: 'progressing', reason: 'RolloutWaiting', message, lookAgainMs: LOOK_AGAIN_MS };
  }
  const message = `no project gets the new images of auth and rest, as they fail in project ${halt.ref}: ${halt.why}`;
  return { state: 'failed', reason: 'RolloutHalted', message, retry: false };
}

const imageOf = ({ metadata }: KubeObject) => metadata.annotations?.[ANNOTATION_IMAGE];
