/**
 * Words for people about an event. In: an event. Out: a title, and facts as pairs of a name and a value. Values are
 * hostile: they are shortened to one line here, and the callers escape them for their medium.
 */
import type { DueDelivery } from '../deliveries.repository.js';

export interface Notice {
  title: string;
  facts: [name: string, value: string][];
}

type Told = Pick<DueDelivery, 'type' | 'data'>;

const MOST_OF_VALUE = 300;

/** Control, format and separator characters could hide text, or begin a line of their own. */
export const oneLine = (value: unknown): string =>
  String(value)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .slice(0, MOST_OF_VALUE);

const TITLES: Readonly<Record<DueDelivery['type'], string>> = {
  'project.healthy': 'The project is healthy',
  'project.failing': 'The project fails',
  'project.recovered': 'The project works again',
  'deploy.succeeded': 'A deploy succeeded',
  'deploy.failed': 'A deploy failed',
  'quota.warning': 'A quota is nearly used up',
  'quota.exceeded': 'A quota is used up',
  'form.received': 'A form was received',
  'account.signed_in': 'Sign-in from a new network',
  'account.token_created': 'New personal access token',
  'notification.test': 'This is a test',
};

/** Fields of a form that a message shows. */
const MOST_FIELDS = 20;

const wordsOf = (value: unknown) => (Array.isArray(value) ? value.join(', ') : value);

export function noticeOf({ type, data }: Told): Notice {
  const { project, ...members } = data as { project?: { name?: unknown } } & Record<string, unknown>;
  return {
    title: TITLES[type],
    facts: [
      ...(project ? [['project', oneLine(project.name)] as [string, string]] : []),
      ...(type === 'form.received' ? fieldFacts(members) : factsOf(members)),
    ],
  };
}

function factsOf(members: Record<string, unknown>): Notice['facts'] {
  const nested = Object.values(members).find(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  );
  return Object.entries({ ...members, ...(nested as object | undefined) })
    .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) || Array.isArray(value))
    .map(([name, value]) => [name.replaceAll('_', ' '), oneLine(wordsOf(value))]);
}

/** Names of fields are hostile too. The word before them keeps them apart from the facts of the platform. */
function fieldFacts({ form, entry }: { form?: unknown; entry?: { data?: object } }): Notice['facts'] {
  const fields = Object.entries(entry?.data ?? {});
  const further = fields.length - MOST_FIELDS;
  return [
    ['form', oneLine(form)],
    ...fields
      .slice(0, MOST_FIELDS)
      .map(([name, value]): [string, string] => [`field ${oneLine(name)}`, oneLine(wordsOf(value))]),
    ...(further > 0 ? [['further fields', String(further)] as [string, string]] : []),
  ];
}
