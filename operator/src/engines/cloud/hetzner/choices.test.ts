import { REGIONS } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { choicesOf } from './choices.js';
import type { ServerType } from './schemas.js';

const PLACES = ['fsn1', 'nbg1', 'hel1', 'ash', 'hil', 'sin'];

type More = Partial<ServerType> & { at?: string[]; price?: string };

function typeOf(name: string, [cores, memory, disk]: [number, number, number], more: More = {}): ServerType {
  const { at = PLACES, price = '10.00', ...fields } = more;
  return {
    name,
    cores,
    memory,
    disk,
    architecture: 'x86',
    prices: PLACES.map((location) => ({ location, price_monthly: { net: price } })),
    locations: at.map((place) => ({ name: place, available: true, deprecation: null })),
    ...fields,
  };
}

const shown = (types: ServerType[], region: (typeof REGIONS)[number] = 'us-east') =>
  choicesOf(types, region).map(({ size, type, location }) => `${size} ${type} ${location}`);

test('a choice is the cheapest type that has at least the cores, memory and disk of the size', () => {
  const types = [
    typeOf('few-cores', [1, 2, 40], { price: '1.00' }),
    typeOf('small-disk', [2, 4, 39], { price: '1.00' }),
    typeOf('little-memory', [2, 1, 80], { price: '1.00' }),
    typeOf('large', [8, 16, 320], { price: '9.5' }),
    typeOf('small', [2, 4, 80], { price: '7.99' }),
  ];
  assert.equal(shown(types), ['cpx11 small ash', 'cpx21 large ash', 'cpx31 large ash', 'cpx41 large ash']);
  assert.equal(choicesOf(types, 'us-east')[0], {
    size: 'cpx11',
    type: 'small',
    location: 'ash',
    cores: 2,
    memoryGb: 4,
    diskGb: 80,
    eurosPerMonth: 7.99,
  });
});

test('a choice is no type that the location does not offer, deprecates or has no price for', () => {
  const at = (fields: object) => ({ locations: [{ name: 'ash', ...fields }] });
  const wide: [number, number, number] = [8, 16, 240];
  const unavailable_after = '2025-12-31T23:59:59Z';
  const refused = [
    typeOf('elsewhere', wide, { at: ['fsn1'] }),
    typeOf('sold-out', wide, at({ available: false })),
    typeOf('deprecated', wide, at({ available: true, deprecation: { unavailable_after } })),
    typeOf('unpriced', wide, { prices: [] }),
    typeOf('arm', wide, { architecture: 'arm' }),
  ];
  assert.equal(shown(refused), []);
  // A version of the API without `available` is served too.
  assert.equal(
    new Set(shown([...refused, typeOf('old-form', wide, at({}))]).map((text) => text.split(' ')[1])),
    new Set(['old-form']),
  );
});

test('choices name the location of the region first, and only others of the same network zone', () => {
  const types = [typeOf('any', [8, 16, 240])];
  const placesOf = (region: (typeof REGIONS)[number]) =>
    choicesOf(types, region)
      .filter(({ size }) => size === 'cpx11')
      .map(({ location }) => location);
  assert.equal(Object.fromEntries(REGIONS.map((region) => [region, placesOf(region)])), {
    'eu-central': ['fsn1', 'nbg1', 'hel1'],
    'eu-west': ['nbg1', 'fsn1', 'hel1'],
    'eu-north': ['hel1', 'fsn1', 'nbg1'],
    'us-east': ['ash'],
    'us-west': ['hil'],
    'ap-south': ['sin'],
  });
});

test('the first by name is chosen when two types have the same price', () => {
  const types = [typeOf('b', [8, 16, 240]), typeOf('a', [8, 16, 240])];
  assert.equal(shown(types)[0], 'cpx11 a ash');
});

test.run();
