/** Random choices from numbers like those of the operator's `randomFrom`, which a seed repeats. */

export const oneOf = <T>(random: () => number, items: readonly T[]): T =>
  items[Math.floor(random() * items.length)] as T;

export function shuffled<T>(random: () => number, items: readonly T[]): T[] {
  const left = [...items];
  return Array.from(items, () => left.splice(Math.floor(random() * left.length), 1)[0] as T);
}
