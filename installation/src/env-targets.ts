/**
 * The target of each environment variable: which of a project's programs get it. In: the content of the Secret that
 * `spec.env` names. Its key `.targets`, which is no name of a variable, has a line `NAME=target` for each variable
 * whose target is not `all`. It is in the same Secret, so that one write changes variables and targets together.
 * Secrets of earlier releases have no such key: all programs get their variables.
 */
export const ENV_TARGETS = ['build', 'runtime', 'all'] as const;
export type EnvTarget = (typeof ENV_TARGETS)[number];

const TARGETS_KEY = '.targets';

type Content = Readonly<Record<string, string>>;

/** Returns each variable's name with its target, in the order of names. */
export function targetsOf(content: Content): Map<string, EnvTarget> {
  const lines = (content[TARGETS_KEY] ?? '').split('\n').map((line) => line.split('='));
  const stored = new Map(lines.map(([name, target]) => [name?.trim(), target?.trim()]));
  return new Map(
    Object.keys(variablesOf(content))
      .sort()
      .map((name) => [name, targetOf(stored.get(name))]),
  );
}

/** Returns the variables without their targets. */
export const variablesOf = (content: Content): Record<string, string> =>
  Object.fromEntries(Object.entries(content).filter(([name]) => name !== TARGETS_KEY));

/** Returns the variables for a build, or for a running program. */
export function variablesFor(program: Exclude<EnvTarget, 'all'>, content: Content): Record<string, string> {
  const targets = targetsOf(content);
  const isFor = (name: string) => ['all', program].includes(targets.get(name) as EnvTarget);
  return Object.fromEntries(Object.entries(variablesOf(content)).filter(([name]) => isFor(name)));
}

/** Returns the content of the Secret, from the variables and the targets of some of them. */
export function withTargets(variables: Content, targets: ReadonlyMap<string, EnvTarget>): Record<string, string> {
  const lines = Object.keys(variables).flatMap((name) => {
    const target = targets.get(name) ?? 'all';
    return target === 'all' ? [] : [`${name}=${target}`];
  });
  return lines.length === 0 ? { ...variables } : { ...variables, [TARGETS_KEY]: lines.join('\n') };
}

/** A misspelt target counts as `all`, so that no program misses the variable. */
const targetOf = (text: string | undefined): EnvTarget => ENV_TARGETS.find((target) => target === text) ?? 'all';
