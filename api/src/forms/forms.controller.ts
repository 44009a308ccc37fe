/** Routes for the forms of a project and their entries. */
import { Readable } from 'node:stream';
import { Body, Controller, Param, Query, StreamableFile } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import {
  CsvQuery,
  Entries,
  EntriesQuery,
  EntryPath,
  type EntryView,
  FormChange,
  FormPath,
  Forms,
  FormView,
} from './forms.schema.js';
import { FormsService } from './forms.service.js';

const TIME = '2026-01-05T10:00:00.000Z';
const FORM: FormView = { name: 'contact', entries: 12, flagged: 3, last_at: TIME, keep_days: 90 };
const ENTRY: EntryView = {
  id: '41',
  created_at: TIME,
  data: { email: 'ada@example.com', message: 'Hello', topics: ['sales', 'support'] },
  flagged: null,
};
const NO_FORM = { 404: 'There is no such project, it is not yours, or it has no such form.' };
const NO_ENTRY = { 404: 'There is no such project, it is not yours, or it has no such entry.' };

@ApiTags('forms')
@Controller()
export class FormsController {
  constructor(private readonly forms: FormsService) {}

  @Route('GET', '/projects/{id}/forms', {
    summary: 'List forms',
    description: 'A form exists once its first entry was received.',
    access: 'forms:read',
    cost: 2,
    params: ProjectId,
    answer: { status: 200, description: 'The forms.', schema: Forms, example: { items: [FORM] } },
    problems: NO_PROJECT,
  })
  listForms(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Forms> {
    return this.forms.list(caller, id);
  }

  @Route('PATCH', '/projects/{id}/forms/{name}', {
    summary: 'Change for how long entries are kept',
    description: 'Entries that are older are deleted within an hour.',
    access: 'forms:write',
    params: FormPath,
    body: FormChange,
    bodyExamples: { quarter: { keep_days: 90 } },
    answer: { status: 200, description: 'The form.', schema: FormView, example: FORM },
    problems: NO_FORM,
  })
  changeForm(@Caller() caller: Principal, @Param() path: FormPath, @Body() body: FormChange): Promise<FormView> {
    return this.forms.change(caller, path, body);
  }

  @Route('DELETE', '/projects/{id}/forms/{name}', {
    summary: 'Delete a form with all entries',
    access: 'forms:write',
    params: FormPath,
    answer: { status: 204, description: 'The form is deleted.' },
    problems: NO_FORM,
  })
  deleteForm(@Caller() caller: Principal, @Param() path: FormPath): Promise<void> {
    return this.forms.removeForm(caller, path);
  }

  @Route('GET', '/projects/{id}/forms/{name}/entries', {
    summary: 'List entries of a form',
    description: 'Text of an entry is hostile: anybody can send it.',
    access: 'forms:read',
    cost: 2,
    params: FormPath,
    query: EntriesQuery,
    answer: { status: 200, description: 'The entries.', schema: Entries, example: { items: [ENTRY] } },
    problems: NO_FORM,
  })
  listFormEntries(
    @Caller() caller: Principal,
    @Param() path: FormPath,
    @Query() query: EntriesQuery,
  ): Promise<Entries> {
    return this.forms.entries(caller, path, query);
  }

  @Route('GET', '/projects/{id}/forms/{name}/entries.csv', {
    summary: 'Download all entries of a form as CSV',
    description: 'A cell that a spreadsheet would calculate begins with an apostrophe.',
    access: 'forms:read',
    cost: 10,
    params: FormPath,
    query: CsvQuery,
    answer: {
      status: 200,
      description: 'The file.',
      schema: Type.String(),
      example: `"id","created_at","flagged","email"\r\n"41","${TIME}","","ada@example.com"\r\n`,
      contentType: 'text/csv',
    },
    problems: NO_FORM,
  })
  async downloadFormEntries(
    @Caller() caller: Principal,
    @Param() path: FormPath,
    @Query() query: CsvQuery,
  ): Promise<StreamableFile> {
    const pieces = await this.forms.csv(caller, path, query);
    const disposition = `attachment; filename="${path.name}.csv"`;
    return new StreamableFile(Readable.from(pieces), { type: 'text/csv; charset=utf-8', disposition });
  }

  @Route('DELETE', '/projects/{id}/forms/{name}/entries/{entry_id}', {
    summary: 'Delete an entry of a form',
    access: 'forms:write',
    params: EntryPath,
    answer: { status: 204, description: 'The entry is deleted.' },
    problems: NO_ENTRY,
  })
  deleteFormEntry(@Caller() caller: Principal, @Param() path: EntryPath): Promise<void> {
    return this.forms.removeEntry(caller, path);
  }
}
