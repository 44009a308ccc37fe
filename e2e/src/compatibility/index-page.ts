/**
 * docs/compatibility.md: how many features of each service work, differ or are absent, counted in the pages below it.
 */
import { readFileSync } from 'node:fs';

const DOCS = new URL('../../../docs/', import.meta.url);
export const INDEX = new URL('compatibility.md', DOCS);

const PAGES = {
  rest: 'REST, PostgREST’s',
  auth: 'Auth, GoTrue’s',
  realtime: 'Realtime',
  storage: 'Storage',
  functions: 'Edge functions and MCP',
} as const;
const OUTCOMES = ['works', 'differs', 'absent'] as const;

type Counts = Record<(typeof OUTCOMES)[number], number>;

export function renderIndex(): string {
  const counted = Object.entries(PAGES).map(([name, title]) => ({ name, title, counts: countsOf(name) }));
  const line = (cells: (string | number)[]) => `| ${cells.join(' | ')} |`;
  const rows = counted.map(({ name, title, counts }) =>
    line([`[${title}](compatibility/${name}.md)`, ...OUTCOMES.map((outcome) => counts[outcome])]),
  );
  const total = OUTCOMES.map((outcome) => counted.reduce((sum, { counts }) => sum + counts[outcome], 0));
  return `${HEAD}
| service | ${OUTCOMES.join(' | ')} |
| --- | --- | --- | --- |
${[...rows, line(['all', ...total])].join('\n')}
${FOOT}`;
}

function countsOf(name: string): Counts {
  const counts: Counts = { works: 0, differs: 0, absent: 0 };
  for (const line of readFileSync(new URL(`compatibility/${name}.md`, DOCS), 'utf8').split('\n')) {
    const outcome = line
      .split(/(?<!\\)\|/)[2]
      ?.trim()
      .match(/^\w+/)?.[0];
    const known = OUTCOMES.find((each) => each === outcome);
    if (known) counts[known] += 1;
  }
  return counts;
}

const HEAD = `# What upstream has, and ours

An app that moves here from Supabase changes its URL and keys. What it calls is listed service by service, each feature with the test that shows it:

- **works**: as upstream documents it, to the letter where clients can tell;
- **differs**: it is there, and how it differs is said;
- **absent**: refused with an error that says so, unless the row says otherwise.
`;

const FOOT = `
A test in each service's folder checks that every row names a test that is there, and one in \`e2e/src/compatibility/\` that these counts are those of the
pages; \`npm run generate\` writes them anew.

Beside [@supabase/lite](compatibility/lite.md): the same requests to both, and which is right where the answers differ.
`;
