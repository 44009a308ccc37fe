/** Tests that the description of a large table is made in short turns of the event loop. */
import { medianOfFive, TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce, stepTimesOf } from '../../testing/steps.js';
import type { Catalogue, Column, Table } from './catalogue/catalogue.js';
import type { Relationship } from './catalogue/relationships.js';
import { describe } from './openapi.js';

const column = (i: number) =>
  ({
    name: `c${i}`,
    type: 'text',
    nullable: true,
    default: null,
    comment: null,
    labels: null,
    maxLength: null,
  }) as Column;

const relationship = (i: number, targetIsView: boolean) =>
  ({
    target: { schema: 'public', name: `t${i}` },
    cardinality: 'many-to-one',
    targetIsView,
    pairs: [[`c${i % 1_600}`, 'id']],
  }) as unknown as Relationship;

const table = {
  schema: 'public',
  name: 'wide',
  comment: null,
  columns: new Map(Array.from({ length: 1_600 }, (_, i) => [`c${i}`, column(i)])),
  primaryKey: ['c0'],
  insertable: true,
  updatable: true,
  deletable: true,
  relationships: Array.from({ length: 10_000 }, (_, i) => relationship(i, i < 1_600)),
} as unknown as Table;
const catalogue = {
  tables: new Map([['public.wide', table]]),
  functions: new Map(),
  comments: {},
} as unknown as Catalogue;

test(`a table of 1,600 columns and 10,000 relationships takes at most ${TURN_MS} ms in one step`, () => {
  const document = JSON.parse(atOnce(describe(catalogue, 'public', 'http://localhost/')).toString());
  // The column's first relationship is to a view.
  assert.match(document.definitions.wide.properties.c7.description, /Foreign Key to `t1607\.id`/);
  const took = medianOfFive(() => Math.max(...stepTimesOf(describe(catalogue, 'public', 'http://localhost/'))));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test.run();
