/** A table for the terminal that is also Markdown: columns of numbers are aligned to the right. */
export function renderTable(head: string[], rows: string[][]): string {
  const columns = head.map((title, column) => {
    const cells = rows.map((row) => row[column] ?? '');
    return { width: Math.max(...[title, ...cells].map(({ length }) => length)), numbers: cells.every(isNumber) };
  });
  const cell = (text: string, column: number) => {
    const { width, numbers } = columns[column] as (typeof columns)[number];
    return numbers ? text.padStart(width) : text.padEnd(width);
  };
  const line = (row: string[]) => `| ${head.map((_, column) => cell(row[column] ?? '', column)).join(' | ')} |`;
  const rule = columns.map(({ width, numbers }) => (numbers ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width)));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

/** A number, a range of them, or none. */
const isNumber = (text: string) => /^(n\/a|[\d.,]*( – [\d.,]+)?)$/.test(text);

export const whole = (value: number) => Math.round(value).toLocaleString('en');
export const decimals = (value: number, digits = 2) => value.toFixed(digits);
