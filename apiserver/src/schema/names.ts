/** The syntax of names in Kubernetes (k8s.io/apimachinery/pkg/util/validation), and the messages for invalid names. */
const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const LABEL_1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const NAME_PART = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const LABEL_VALUE = `(${NAME_PART})?`;

const whole = (expression: string) => new RegExp(`^(?:${expression})$`);
const isLabel = whole(LABEL);
const isLabel1035 = whole(LABEL_1035);
const isNamePart = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

const regex = (expression: string) => `regex used for validation is '${expression}')`;
const SUBDOMAIN_WORDS =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
  `and must start and end with an alphanumeric character (e.g. 'example.com', ${regex(SUBDOMAIN)}`;
const LABEL_WORDS =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', " +
  `and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', ${regex(LABEL)}`;
const LABEL_1035_WORDS =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
  `and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', ${regex(LABEL_1035)}`;
const NAME_PART_WORDS =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
  `(e.g. 'MyName',  or 'my.name',  or '123-abc', ${regex(NAME_PART)}`;
const LABEL_VALUE_WORDS =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " +
  'and must start and end with an alphanumeric character ' +
  `(e.g. 'MyValue',  or 'my_value',  or '12345', ${regex(LABEL_VALUE)}`;

const atMost = (length: number) => `must be no more than ${length} characters`;

export function subdomainProblems(name: string): string[] {
  const problems = name.length > 253 ? [atMost(253)] : [];
  // The name is split because one expression for the dotted form would backtrack.
  if (!name.split('.').every((label) => isLabel.test(label))) problems.push(SUBDOMAIN_WORDS);
  return problems;
}

export function labelProblems(name: string): string[] {
  const problems = name.length > 63 ? [atMost(63)] : [];
  if (isLabel.test(name)) return problems;
  const dotted = name.split('.').every((label) => isLabel.test(label));
  return [...problems, dotted ? 'must not contain dots' : LABEL_WORDS];
}

export function label1035Problems(name: string): string[] {
  const problems = name.length > 63 ? [atMost(63)] : [];
  return isLabel1035.test(name) ? problems : [...problems, LABEL_1035_WORDS];
}

/** Checks keys of labels and annotations, and finalizers: an optional DNS prefix, a slash, and a name. */
export function qualifiedNameProblems(text: string): string[] {
  const parts = text.split('/');
  if (parts.length > 2) {
    return [
      `a qualified name ${NAME_PART_WORDS} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const problems: string[] = [];
  const name = parts.at(-1) ?? '';
  if (parts.length === 2) {
    const prefix = parts[0] ?? '';
    if (prefix === '') problems.push('prefix part must be non-empty');
    else problems.push(...subdomainProblems(prefix).map((problem) => `prefix part ${problem}`));
  }
  if (name === '') problems.push('name part must be non-empty');
  else if (name.length > 63) problems.push(`name part ${atMost(63)}`);
  if (!isNamePart.test(name)) problems.push(`name part ${NAME_PART_WORDS}`);
  return problems;
}

export function labelValueProblems(value: string): string[] {
  const problems = value.length > 63 ? [atMost(63)] : [];
  return value === '' || isNamePart.test(value) ? problems : [...problems, LABEL_VALUE_WORDS];
}
