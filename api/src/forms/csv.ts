/**
 * Writes entries as CSV (RFC 4180). Each cell is quoted, because a program that expects another separator would see
 * more cells, and a cell that a spreadsheet would calculate begins with an apostrophe.
 */

const FORMULA = /^[=+\-@\t\r\n]/;

export const csvRow = (cells: readonly unknown[]): string => `${cells.map(cellOf).join(',')}\r\n`;

function cellOf(value: unknown): string {
  const text = Array.isArray(value) ? value.join('; ') : String(value ?? '');
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}
