/**
 * Generates docs/compatibility.md: for each service, how many features work, differ or are absent, counted in its page.
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

const HEAD = `# Compatibility with Supabase

For developers who move an app from Supabase. You change the URL in the app. If you create the project with the JWT
secret of the old project, the app keeps its keys ([move an app](guides/move-from-supabase.md)). Each of the following
pages lists the features of one service. Each row names a test that shows the result:

- **works**: the feature behaves exactly as Supabase documents it, as far as clients can notice;
- **differs**: the feature exists, and the row describes the difference;
- **absent**: a request with this feature is rejected with an error that says so, unless the row says otherwise.
`;

const FOOT = `
A test in the folder of each service checks that each named test exists. \`npm run generate\` counts the rows.

[Beside @supabase/lite](compatibility/lite.md) lists the different responses of Slipway and @supabase/lite to the same
requests, and says which response is correct.
`;
