/**
 * Select list of a ReadNode: own columns, JSON of embedded resources, columns of spread ones, and the grouping of all.
 * A spread node leaves its aggregates to the outer node.
 */
import { isToOne } from '../catalogue/relationships.js';
import type { EmbedNode } from '../plan/read-plan.js';
import type { Aggregate, FieldItem } from '../request/grammar.js';
import { castType } from './casts.js';
import { columnSql, fieldSql, type Scope } from './condition.js';
import { identifier, type Writer } from './writer.js';

/** Column of a node's rows. `pending` is an aggregate that the outer node of a spread applies to it. */
export interface Output {
  name: string;
  pending?: { aggregate: Aggregate; as: string };
}

const cast = (value: string, type: string | undefined) =>
  type === undefined ? value : `cast(${value} as ${castType(type)})`;

const aggregated = (value: string, aggregate: Aggregate) => cast(`${aggregate.name}(${value})`, aggregate.cast);

export class Selection {
  readonly columns: string[] = [];
  readonly outputs: Output[] = [];
  private readonly groups: number[] = [];

  constructor(
    private readonly writer: Writer,
    private readonly scope: Scope,
    /** True if the node is spread into the outer one. */
    private readonly spread: boolean,
  ) {}

  addItem(item: FieldItem): void {
    if (item.field.name === '*' && !item.aggregate) return this.addAll();
    const value = this.value(item);
    const name = item.alias ?? defaultName(item);
    if (!item.aggregate) this.add(value, { name }, true);
    else if (!this.spread) this.add(aggregated(value, item.aggregate), { name }, false);
    else {
      const pending = { aggregate: item.aggregate, as: name };
      this.add(value === '*' ? 'true' : value, { name: this.writer.alias('aggregated'), pending }, false);
    }
  }

  addEmbed({ name, relationship, spread }: EmbedNode, alias: string, outputs: Output[]): void {
    const toOne = isToOne(relationship);
    const of = (column: string) => {
      const value = `${identifier(alias)}.${identifier(column)}`;
      return this.comparable(toOne ? value : `coalesce(${value}, '[]')`, !spread || !toOne);
    };
    if (!spread) return this.add(of('body'), { name }, true);
    for (const output of outputs) {
      const { pending } = output;
      if (!pending) this.add(of(output.name), output, true);
      else if (this.spread) this.add(of(output.name), output, false);
      else this.add(aggregated(of(output.name), pending.aggregate), { name: pending.as }, false);
    }
  }

  groupBy(extra: { value: string }[]): string {
    const terms = [...this.groups.map(String), ...extra.map(({ value }) => value)];
    return terms.length === 0 ? '' : ` group by ${terms.join(', ')}`;
  }

  private addAll(): void {
    this.columns.push(columnSql(this.scope, '*'));
    for (const name of this.scope.node.table?.columns.keys() ?? []) this.outputs.push({ name });
  }

  private add(value: string, output: Output, isGroup: boolean): void {
    this.outputs.push(output);
    if (this.columns.push(`${value} as ${identifier(output.name)}`) && isGroup) this.groups.push(this.columns.length);
  }

  private value(item: FieldItem): string {
    const { field } = item;
    if (field.name === '*') return '*';
    const value = fieldSql(this.writer, this.scope, field);
    const column = this.scope.node.table?.columns.get(field.name);
    const isShown = item.cast === undefined && !item.aggregate && field.path.length === 0;
    return isShown && column?.toJson ? `${column.toJson}(${value})` : cast(value, item.cast);
  }

  /** JSON can be grouped only as jsonb. */
  private comparable(value: string, isJson: boolean): string {
    return isJson && this.scope.node.isGrouped ? `${value}::jsonb` : value;
  }
}

function defaultName({ field, aggregate }: FieldItem): string {
  if (aggregate) return aggregate.name;
  return [...field.path].reverse().find(({ isIndex }) => !isIndex)?.key ?? field.name;
}
