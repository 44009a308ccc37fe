/**
 * The certificates of one machine: which hosts need one, and the progress of a project's certificates for its status.
 * In: the Projects, and the settings of a certificate authority. Out: files, from which the data plane serves TLS.
 */
import {
  type AcmeSettings,
  CertificateFolder,
  CertificateOrders,
  type CertificateState,
  type WantedHost,
} from '@slipway/certificates';
import { normalAddress, type Project } from '@slipway/crds';
import { hasProjectHosts, type ProjectPlaces, projectsHostOf } from '@slipway/installation';
import { isDnsName } from '@slipway/program';
import type { Logger } from 'pino';
import type { EngineOutcome, EnginePart } from '../../capabilities/index.js';
import { every } from '../../runtime/every.js';

export interface MachineCertificatesOptions {
  /** The folder of certificates. */
  folder: string;
  acme: AcmeSettings;
  places: ProjectPlaces;
  projects(): readonly Project[];
  project(ref: string): Project | undefined;
  onChange(ref: string): void;
  log: Logger;
}

const CONDITION = 'CertificateReady';
const LOOK_MS = 2_000;
/**
 * Milliseconds between checks. A change of a certificate calls onChange, so a check only repairs a status that was not
 * written. It is no later than the check of a healthy project, which also measures its usage.
 */
const LOOK_AGAIN_MS = 3 * 60_000;

export class MachineCertificates {
  readonly #options: MachineCertificatesOptions;
  #orders: CertificateOrders | undefined;
  #close: () => Promise<void> = async () => undefined;

  constructor(options: MachineCertificatesOptions) {
    this.#options = options;
  }

  /** Called when this operator leads: two that place orders would exceed the limits of a day. */
  async begin(): Promise<void> {
    const { acme, log, onChange, places, projects } = this.#options;
    const folder = new CertificateFolder(this.#options.folder);
    const known: KnownHosts = new WeakMap();
    // The library of the protocol takes 20 MB and is not needed elsewhere.
    const { AcmeAuthority } = await import('@slipway/certificates/acme-authority.js');
    const authority = new AcmeAuthority(acme, folder);
    const orders = new CertificateOrders({
      folder,
      authority,
      wanted: () => wantedHosts(places, projects(), known),
      onChange: (host) => onChange(this.#refOf(host)),
      log,
    });
    this.#orders = orders;
    const stop = every(LOOK_MS, 'the look at certificates', () => orders.look(), log);
    this.#close = async () => {
      stop();
      orders.close();
      await authority.close();
    };
  }

  /** Returns the condition of the project's certificates: the one of its own host, else the worst of its previews. */
  partOf(ref: string): EnginePart[] {
    const orders = this.#orders;
    const project = this.#options.project(ref);
    const domain = domainOf(this.#options.places);
    if (!orders || !project || domain === undefined) return [];
    const outcomes = hostsOf(domain, project).flatMap((host) => {
      const state = orders.stateOf(host);
      return state ? [outcomeOf(host, state)] : [];
    });
    const outcome = outcomes.find(({ state }) => state !== 'ready') ?? outcomes[0];
    return outcome ? [{ condition: CONDITION, outcome, advisory: true }] : [];
  }

  close(): Promise<void> {
    return this.#close();
  }

  #refOf(host: string): string {
    const { places, projects } = this.#options;
    const domain = domainOf(places) ?? '';
    return projects().find((project) => hostsOf(domain, project).includes(host))?.metadata.name ?? '';
  }
}

/** The hosts of each object that a cache has: it replaces an object that changes. */
export type KnownHosts = WeakMap<Project, readonly WantedHost[]>;

/**
 * The platform's own host comes first; a project that was never ready has no address yet. Called at each look, so that
 * `known` has what is known of a project.
 */
export function wantedHosts(places: ProjectPlaces, projects: readonly Project[], known: KnownHosts): WantedHost[] {
  const { hostname: host } = new URL(places.publicUrl);
  const all: WantedHost[] = isDnsName(host) ? [{ host, account: undefined }] : [];
  const domain = domainOf(places);
  if (domain === undefined) return all;
  for (const project of projects) {
    const hosts = known.get(project) ?? hostsOfReady(domain, project);
    known.set(project, hosts);
    all.push(...hosts);
  }
  return all;
}

function hostsOfReady(domain: string, project: Project): WantedHost[] {
  if (project.status?.url === undefined) return [];
  const account = normalAddress(project.spec.owner);
  return hostsOf(domain, project).map((host) => ({ host, account }));
}

/** Undefined: projects are at paths of the platform's host. */
const domainOf = (places: ProjectPlaces): string | undefined =>
  hasProjectHosts({ site: undefined, ...places }) ? projectsHostOf(places) : undefined;

/** Leaves out hosts for which no certificate is possible, such as a preview's whose branch has a long name. */
const hostsOf = (domain: string, { metadata, status }: Project): string[] =>
  [`${metadata.name}.${domain}`, ...(status?.previews ?? []).map(({ url }) => URL.parse(url)?.hostname ?? '')].filter(
    isDnsName,
  );

function outcomeOf(host: string, certificate: CertificateState): EngineOutcome {
  if (certificate.state === 'issued') return { state: 'ready', value: undefined };
  if (certificate.state === 'failed') {
    const { problem, nextAt, notAfter } = certificate;
    const present = notAfter === undefined ? '' : ` The present one is valid until ${day(notAfter)}.`;
    const message =
      `The authority issued no certificate for ${host}: ${problem}. ` +
      `The next order is placed at ${new Date(nextAt).toISOString()}.${present}`;
    return { state: 'failed', reason: 'CertificateRefused', message, retry: false };
  }
  const { until, problem } = certificate;
  const end = until === undefined ? '' : `, until ${new Date(until).toISOString()}`;
  const why = `${problem ?? 'orders of a day are limited'}${end}`;
  return {
    state: 'progressing',
    reason: 'CertificateOrdered',
    message: `The certificate for ${host} is being ordered, or waits for its turn (${why}).`,
    lookAgainMs: LOOK_AGAIN_MS,
  };
}

const day = (at: number) => new Date(at).toISOString().slice(0, 10);
