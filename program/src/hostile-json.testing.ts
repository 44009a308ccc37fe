/**
 * Hostile JSON for tests of decoders. In: the bound of a decoder. Out: texts up to the bound, in the shapes of CORPUS
 * and of fast-check.
 */
import fc from 'fast-check';
import { countValues, type JsonBound } from './json.js';

/** Text that repeats one unit: a value, in arrays or objects, with the same names or different ones. */
export interface Shape {
  outer: 'array' | 'object';
  /** Members of each unit's object. Zero: the unit is the leaf. */
  members: number;
  name: keyof typeof NAMES;
  nameLength: number;
  /** Arrays and objects around each leaf. */
  depth: number;
  around: 'array' | 'object';
  leaf: keyof typeof LEAVES;
  leafLength: number;
  /** Units are lengthened until the text has as many bytes as the bound allows for its values. */
  stretched: 'leaf' | 'name' | 'nothing';
  /** End of the text: complete, before its last brackets, or without any closing bracket. */
  end: 'whole' | 'cut' | 'open';
  /** 'values': the text keeps within the bound. 'bytes': it has more values, and is as long as the bound. */
  upTo: 'values' | 'bytes';
}

/** `length` is in bytes, as bounds are. */
const padded = (unit: string, length: number) => unit.repeat(Math.max(0, Math.floor(length / Buffer.byteLength(unit))));

/** Functions that make names. `i` is the number of the unit, which makes names and texts different. */
const NAMES = {
  same: (_i: number, length: number) => padded('x', length),
  numbered: (i: number, length: number) => `${i}k`.padEnd(length, 'x'),
  escaped: (i: number, length: number) => `\\u006b${i}${padded('\\u0078', length - 6)}`,
  wide: (i: number, length: number) => `€${i}${padded('€', length - 3)}`,
  index: (i: number) => `${i}`,
  'sparse index': (i: number) => `${(i * 2_654_435_761) % 4_294_967_295}`,
  proto: () => '__proto__',
  constructor: () => 'constructor',
};

const LEAVES = {
  number: (i: number, length: number) => `${i + 1}${padded('7', length - 5)}`,
  fraction: (i: number, length: number) => `-0.${i}${padded('123456789', length - 5)}`,
  exponent: (i: number, length: number) => `${i}.5e-${padded('3', Math.min(length, 300))}`,
  text: (_i: number, length: number) => `"${padded('x', length)}"`,
  'numbered text': (i: number, length: number) => `"${`${i}`.padEnd(length, 'x')}"`,
  escapes: (i: number, length: number) => `"${i}${padded('\\u00e9', length)}"`,
  'line breaks': (i: number, length: number) => `"${i}${padded('\\n', length)}"`,
  surrogates: (i: number, length: number) => `"${i}${padded('\\ud83d\\ude00', length)}"`,
  'half surrogates': (i: number, length: number) => `"${i}${padded('\\ud83d', length)}"`,
  'wide text': (i: number, length: number) => `"${i}${padded('€', length)}"`,
  null: () => 'null',
  'empty array': () => '[]',
  'empty object': () => '{}',
  spaces: (_i: number, length: number) => `${padded(' ', length)}1`,
};

const PLAIN: Shape = {
  outer: 'array',
  members: 0,
  name: 'numbered',
  nameLength: 1,
  depth: 0,
  around: 'array',
  leaf: 'number',
  leafLength: 1,
  stretched: 'nothing',
  end: 'whole',
  upTo: 'values',
};

/** Length that stands for as much as the limit allows. */
const LONGEST = Number.POSITIVE_INFINITY;

/** Shapes with the highest cost so far, and shapes of known attacks. */
export const CORPUS: Record<string, Partial<Shape>> = {
  numbers: {},
  'one number': { leafLength: LONGEST },
  'long numbers': { leaf: 'fraction', stretched: 'leaf' },
  'exponents beyond a double': { leaf: 'exponent', leafLength: 300 },
  texts: { leaf: 'numbered text' },
  'one text': { leaf: 'text', leafLength: LONGEST },
  'one text without end': { leaf: 'text', leafLength: LONGEST, end: 'cut' },
  'one text of escapes': { leaf: 'escapes', leafLength: LONGEST },
  'one text of line breaks': { leaf: 'line breaks', leafLength: LONGEST },
  'one text beyond Latin-1': { leaf: 'wide text', leafLength: LONGEST },
  'texts of escapes': { leaf: 'escapes', stretched: 'leaf' },
  'texts of half surrogates': { leaf: 'half surrogates', stretched: 'leaf' },
  'empty arrays': { leaf: 'empty array' },
  'empty objects': { leaf: 'empty object' },
  'objects of as many shapes': { members: 1 },
  'objects of as many shapes and long names': { members: 1, stretched: 'name' },
  'objects of one shape': { members: 4, name: 'same' },
  'wide objects of as many shapes': { members: 20 },
  'nested objects of as many shapes': { members: 1, depth: 10, around: 'object' },
  'one object of many names': { outer: 'object' },
  'one object of long names': { outer: 'object', stretched: 'name' },
  'one object of escaped names': { outer: 'object', name: 'escaped' },
  'one object of names beyond Latin-1': { outer: 'object', name: 'wide' },
  'one object of indexes': { outer: 'object', name: 'sparse index' },
  'one name, again and again': { outer: 'object', name: 'same' },
  'names __proto__': { members: 1, name: 'proto', leaf: 'empty object' },
  'deep arrays': { depth: LONGEST },
  'deep objects': { depth: LONGEST, around: 'object' },
  'arrays without end': { depth: LONGEST, end: 'open', upTo: 'bytes' },
  'objects without end': { depth: LONGEST, around: 'object', end: 'open', upTo: 'bytes' },
  spaces: { leaf: 'spaces', leafLength: LONGEST },
  'more values than allowed': { leaf: 'empty object', upTo: 'bytes' },
  'more objects than allowed': { members: 1, upTo: 'bytes' },
};

export const shapeOf = (part: Partial<Shape>): Shape => ({ ...PLAIN, ...part });

/** Random shapes of fast-check, which it shrinks to a simple one when a test fails. */
export const shapes: fc.Arbitrary<Shape> = fc.record({
  outer: fc.constantFrom('array', 'object'),
  members: fc.oneof(fc.nat(3), fc.nat(100)),
  name: fc.constantFrom(...(Object.keys(NAMES) as Shape['name'][])),
  nameLength: fc.oneof(fc.nat(12), fc.nat(2_000)),
  depth: fc.oneof(fc.constant(0), fc.nat(8), fc.nat(200)),
  around: fc.constantFrom('array', 'object'),
  leaf: fc.constantFrom(...(Object.keys(LEAVES) as Shape['leaf'][])),
  leafLength: fc.oneof(fc.nat(20), fc.nat(5_000)),
  stretched: fc.constantFrom('nothing', 'leaf', 'name'),
  end: fc.oneof({ weight: 8, arbitrary: fc.constant('whole' as const) }, fc.constantFrom('cut', 'open')),
  upTo: fc.oneof({ weight: 4, arbitrary: fc.constant('values' as const) }, fc.constant('bytes' as const)),
});

/** Returns a text of the shape, as large as the bound allows. */
export function hostileText(part: Partial<Shape>, bound: JsonBound): Buffer {
  const shape = stretchedTo(fitting(within(shapeOf(part), bound), bound), bound);
  const [open, close] = shape.outer === 'array' ? ['[', ']'] : ['{', '}'];
  let bytes = 2;
  let values = 2;
  const isCounted = shape.upTo === 'values' && bound.values < LONGEST;
  const units: string[] = [];
  for (let i = 0; ; i++) {
    const unit = unitOf(shape, i);
    const length = Buffer.byteLength(unit) + 1;
    const count = isCounted ? valuesOf(unit) : 0;
    if (i > 0 && (bytes + length > bound.bytes || values + count > bound.values)) break;
    units.push(unit);
    bytes += length;
    values += count;
  }
  const text = Buffer.from(open + units.join(',') + close);
  // A text beyond the bound is rejected without being read, which would prove nothing.
  if (text.length > bound.bytes) throw new Error(`${text.length} bytes are beyond the bound: ${JSON.stringify(shape)}`);
  return text.subarray(0, shape.end === 'cut' ? -2 : undefined);
}

/** Returns the shape with unlimited parts cut to the bound. */
function within(shape: Shape, bound: JsonBound): Shape {
  const most = shape.end === 'open' ? bound.bytes / 30 : Math.min(bound.depth - 1, bound.values / 3);
  const depth = Math.floor(Math.min(most, shape.depth));
  if (shape.leafLength !== LONGEST) return { ...shape, depth };
  const frame = Buffer.byteLength(unitOf({ ...shape, depth, leafLength: 0 }, 0)) + 20;
  return { ...shape, depth, leafLength: Math.max(0, bound.bytes - frame) };
}

/** Returns the shape with its unit halved until the bound has room for one. */
function fitting(shape: Shape, bound: JsonBound): Shape {
  const { members, nameLength, depth, leafLength } = shape;
  const count = Math.max(1, members);
  const isWithin = isShort(shape, bound) && (shape.end === 'open' || count * (depth + 1) * 2 <= bound.values);
  if (isWithin || members + nameLength + depth + leafLength === 0) return shape;
  const half = (figure: number) => Math.floor(figure / 2);
  return fitting(
    {
      ...shape,
      members: half(members),
      nameLength: half(nameLength),
      depth: half(depth),
      leafLength: half(leafLength),
    },
    bound,
  );
}

function stretchedTo(shape: Shape, bound: JsonBound): Shape {
  if (shape.stretched === 'nothing' || bound.values === LONGEST) return shape;
  const unit = unitOf(shape, 10_000);
  const count = Math.max(1, Math.floor(bound.values / valuesOf(unit)));
  const leaves = Math.max(1, shape.members);
  const parts = shape.stretched === 'leaf' ? leaves : Math.max(1, namesOf(shape));
  const room = Math.max(0, Math.floor((bound.bytes / count - Buffer.byteLength(unit)) / parts) - 2);
  const member = shape.stretched === 'leaf' ? 'leafLength' : 'nameLength';
  const stretched = { ...shape, [member]: shape[member] + room };
  return isShort(stretched, bound) ? stretched : shape;
}

/** True if the bound has room for a unit and its brackets. */
const isShort = (shape: Shape, bound: JsonBound) => Buffer.byteLength(unitOf(shape, 0)) + 2 <= bound.bytes;

/** Names of a unit. */
function namesOf({ outer, members, depth, around }: Shape): number {
  const ofLeaf = (members === 0 ? 0 : 1) + (around === 'object' ? depth : 0);
  return (outer === 'object' ? 1 : 0) + Math.max(1, members) * ofLeaf;
}

/** Values and names of a unit, with the comma that ends it. */
const valuesOf = (unit: string) => countValues(Buffer.from(unit), UNBOUND);
const UNBOUND: JsonBound = {
  bytes: Number.POSITIVE_INFINITY,
  depth: Number.POSITIVE_INFINITY,
  values: Number.POSITIVE_INFINITY,
};

function unitOf(shape: Shape, i: number): string {
  const value = shape.members === 0 ? nested(shape, i) : objectOf(shape, i);
  return shape.outer === 'array' ? value : `"${nameOf(shape, i)}":${value}`;
}

const nameOf = ({ name, nameLength }: Shape, i: number) => NAMES[name](i, nameLength);

function objectOf(shape: Shape, i: number): string {
  const members = Array.from({ length: shape.members }, (_, member) => {
    const at = i * shape.members + member;
    return `"${nameOf(shape, at)}":${nested(shape, at)}`;
  });
  return `{${members.join(',')}}`;
}

function nested(shape: Shape, i: number): string {
  const { depth, around, end, leaf, leafLength } = shape;
  const [open, close] = around === 'array' ? ['[', ']'] : [`{"${nameOf(shape, i)}":`, '}'];
  return open.repeat(depth) + LEAVES[leaf](i, leafLength) + (end === 'open' ? '' : close.repeat(depth));
}
