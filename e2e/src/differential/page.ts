/** Generates docs/compatibility/lite.md from the results of a run. */
import type { Service } from './case.js';
import type { Outcome } from './run.js';
import { VERDICTS, type Verdict } from './verdicts.js';

export const PAGE = new URL('../../../docs/compatibility/lite.md', import.meta.url);

const SERVICES: readonly Service[] = ['rest', 'auth', 'storage'];
const RIGHT: Record<Verdict['right'], string> = { ours: 'ours', lite: 'lite', both: 'both' };

/** Returns the verdict on each difference, or undefined without a verdict. */
export const verdictsOf = ({ differences, ...outcome }: Outcome): Map<string, string | undefined> =>
  new Map(
    differences.map((difference) => [
      difference.at,
      Object.keys(VERDICTS).find((name) => VERDICTS[name]?.covers(difference, { differences, ...outcome })),
    ]),
  );

export function render(outcomes: readonly Outcome[]): string {
  const found = new Map<string, string[]>();
  for (const outcome of outcomes) {
    const places = new Map<string, string[]>();
    for (const [place, name] of verdictsOf(outcome)) {
      if (name) places.set(name, [...(places.get(name) ?? []), place]);
    }
    for (const [name, list] of places) {
      const line = `\`${outcome.case.service} ${outcome.case.name}\`: ${list.join(', ')}`;
      found.set(name, [...(found.get(name) ?? []), line]);
    }
  }
  const verdicts = Object.entries(VERDICTS).filter(([name]) => found.has(name));
  return `${HEAD}
${counts(outcomes)}

## Differences

| what | ours | lite | right by upstream | cases |
| --- | --- | --- | --- | --- |
${verdicts.map(([name, verdict]) => row(verdict, found.get(name)?.length ?? 0)).join('\n')}

## Cases

Each case with the parts in which the two responses differ.
${verdicts.map(([name, { what }]) => section(what, found.get(name) ?? [])).join('')}`;
}

const HEAD = `# Beside @supabase/lite

\`e2e/src/differential/\` sends each of its requests to a project of ours and to
[@supabase/lite](https://www.npmjs.com/package/@supabase/lite) 0.10.0. Lite runs as \`lite start\` on its Postgres
driver. Both have the same schema, rows and tokens. The tests compare status, body and the headers that clients read,
and the rows after a write. Ids, times and tokens of users and files are compared by their format. Auth has no mail
server on either side. Lite's storage is experimental, and it has no realtime and no functions.

This page is generated from a run (\`npm run generate -- lite\`). A test fails if a run has a new difference, misses
one, or finds one in another case. **Right** is decided by upstream's documentation, or by its code if the documentation
does not say. *both*: upstream leaves it open.
`;

function counts(outcomes: readonly Outcome[]): string {
  const rows = SERVICES.map((service) => {
    const own = outcomes.filter((outcome) => outcome.case.service === service);
    const same = own.filter(({ differences }) => differences.length === 0).length;
    const judged = own.filter(({ differences }) => differences.length > 0).map(worst);
    const count = (right: Verdict['right']) => judged.filter((each) => each === right).length;
    return { service, numbers: [own.length, same, count('ours'), count('lite'), count('both')] };
  });
  const total = [0, 1, 2, 3, 4].map((at) => rows.reduce((sum, { numbers }) => sum + (numbers[at] ?? 0), 0));
  const lines = [...rows, { service: 'all', numbers: total }].map(
    ({ service, numbers }) => `| ${[service, ...numbers].join(' | ')} |`,
  );
  return [
    '| service | cases | same | ours right | lite right | both |',
    '| --- | --- | --- | --- | --- | --- |',
    ...lines,
  ].join('\n');
}

/** If our response is wrong in any respect, the case counts as wrong. */
function worst(outcome: Outcome): Verdict['right'] {
  const rights = [...verdictsOf(outcome).values()].map((name) => name && VERDICTS[name]?.right);
  return rights.includes('lite') ? 'lite' : rights.includes('ours') ? 'ours' : 'both';
}

const row = ({ what, ours, lite, right, source }: Verdict, cases: number) =>
  `| ${[what, ours, lite, `[${RIGHT[right]}](${source})`, cases].join(' | ')} |`;

const section = (what: string, lines: string[]) => `\n### ${what}\n\n${lines.map((line) => `- ${line}\n`).join('')}`;
