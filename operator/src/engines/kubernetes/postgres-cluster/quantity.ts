/** Returns a Kubernetes quantity of memory or storage in bytes. */
const UNITS: Readonly<Record<string, number>> = { '': 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };

export function bytesOf(quantity: string): number {
  const [, digits, unit = ''] = quantity.match(/^(\d+)([A-Za-z]*)$/) ?? [];
  const scale = UNITS[unit];
  if (digits === undefined || scale === undefined) {
    throw new Error(`${quantity} is not a size: use a form like 512Mi or 10Gi`);
  }
  return Number(digits) * scale;
}
