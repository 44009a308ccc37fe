/** Forms of a project and their entries, for its owner. */
import { Injectable } from '@nestjs/common';
import type { Principal } from '../callers/principal.js';
import { missing } from '../http/problem.js';
import { sqlTime } from '../outbox/sql-values.js';
import { ProjectsService } from '../projects/projects.service.js';
import { csvRow } from './csv.js';
import { readEntryText } from './entry-data.js';
import { type EntryRow, type FormOf, type FormRow, FormsRepository } from './forms.repository.js';
import type {
  CsvQuery,
  Entries,
  EntriesQuery,
  EntryPath,
  EntryView,
  FormChange,
  FormPath,
  Forms,
  FormView,
} from './forms.schema.js';

const USUAL_ENTRIES = 50;
const CSV_PAGE = 100;
/** Fields with a column of their own. Others of an entry share the last column, so that a row has a bounded length. */
const MOST_COLUMNS = 200;

@Injectable()
export class FormsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly forms: FormsRepository,
  ) {}

  async list(caller: Principal, id: number): Promise<Forms> {
    await this.projects.find(caller, id);
    return { items: (await this.forms.forms(id)).map(formView) };
  }

  async entries(caller: Principal, path: FormPath, query: EntriesQuery): Promise<Entries> {
    const form = await this.find(caller, path);
    const { before, limit = USUAL_ENTRIES } = query;
    return { items: (await this.forms.entries(form, { before, limit, flagged: flagOf(query) })).map(entryView) };
  }

  /** Returns the pieces of a file. Entries that arrive after its beginning are left out. */
  async csv(caller: Principal, path: FormPath, query: CsvQuery): Promise<AsyncGenerator<string>> {
    const form = await this.find(caller, path);
    const flagged = flagOf(query);
    const [newest] = await this.forms.entries(form, { before: undefined, limit: 1, flagged });
    const names = await this.forms.fieldNames(form, { flagged, most: MOST_COLUMNS + 1 });
    return this.csvPieces(form, { names, flagged, last: newest?.id });
  }

  async change(caller: Principal, path: FormPath, { keep_days }: FormChange): Promise<FormView> {
    const form = await this.find(caller, path);
    await this.forms.keep(form, keep_days);
    const row = await this.forms.form(form);
    if (!row) throw missing('form');
    return formView(row);
  }

  async removeForm(caller: Principal, path: FormPath): Promise<void> {
    const form = await this.find(caller, path);
    if (!(await this.forms.removeForm(form))) throw missing('form');
  }

  async removeEntry(caller: Principal, path: EntryPath): Promise<void> {
    const form = await this.find(caller, path);
    if (!(await this.forms.removeEntry(form, path.entry_id))) throw missing('entry');
  }

  private async find(caller: Principal, { id, name }: FormPath): Promise<FormOf> {
    await this.projects.find(caller, id);
    const form = { projectId: id, form: name };
    if (!(await this.forms.form(form))) throw missing('form');
    return form;
  }

  private async *csvPieces(
    form: FormOf,
    { names, flagged, last }: { names: readonly string[]; flagged: boolean | undefined; last: string | undefined },
  ): AsyncGenerator<string> {
    const columns = names.slice(0, MOST_COLUMNS);
    const hasMore = names.length > MOST_COLUMNS;
    yield csvRow(['id', 'created_at', 'flagged', ...columns, ...(hasMore ? ['further fields'] : [])]);
    if (last === undefined) return;
    for (let before = String(BigInt(last) + 1n); ; ) {
      const rows = await this.forms.entries(form, { before, limit: CSV_PAGE, flagged });
      if (rows.length === 0) return;
      yield rows.map((row) => csvRow(cellsOf(row, columns, hasMore))).join('');
      before = (rows.at(-1) as EntryRow).id;
    }
  }
}

function cellsOf(row: EntryRow, columns: readonly string[], hasMore: boolean): unknown[] {
  const { id, created_at, flagged, data } = entryView(row);
  const values = new Map(Object.entries(data));
  const cells = columns.map((name) => values.get(name));
  for (const name of columns) values.delete(name);
  const further = values.size === 0 ? '' : JSON.stringify(Object.fromEntries(values));
  return [id, created_at, flagged, ...cells, ...(hasMore ? [further] : [])];
}

const flagOf = ({ flagged }: CsvQuery) => (flagged === undefined ? undefined : flagged === 'true');

const formView = ({ name, entries, flagged, lastAt, keepDays }: FormRow): FormView => ({
  name,
  entries,
  flagged,
  last_at: lastAt === null ? null : sqlTime(lastAt).toISOString(),
  keep_days: keepDays,
});

const entryView = ({ id, createdAt, text, flagged }: EntryRow): EntryView => ({
  id,
  created_at: sqlTime(createdAt).toISOString(),
  data: readEntryText(text),
  flagged: flagged as EntryView['flagged'],
});
