/** Decides which variables of a project are secrets. In: its variables. Out: the values that no log may show. Pure. */

/** Minimum length of a secret variable. Shorter values, such as `true`, occur in any log. */
const SHORTEST = 8;

/** Prefixes of variables that frameworks write into the pages of a site, so that everybody can read them. */
const PUBLIC_PREFIXES = [
  'VITE_',
  'PUBLIC_',
  'NEXT_PUBLIC_',
  'NUXT_PUBLIC_',
  'REACT_APP_',
  'VUE_APP_',
  'GATSBY_',
  'EXPO_PUBLIC_',
  'NG_APP_',
];

export const secretValuesOf = (env: Readonly<Record<string, string>>): string[] =>
  Object.entries(env).flatMap(([name, value]) => (value.length >= SHORTEST && !isPublic(name) ? [value] : []));

const isPublic = (name: string) => PUBLIC_PREFIXES.some((prefix) => name.startsWith(prefix));
