/**
 * Decodes the body of a form: urlencoded, multipart without files, or a flat JSON object. In: the content type and the
 * whole body. Out: the fields in their order, within bounds. Throws FormRefusal for anything else.
 */
import { type JsonBound, JsonRefusal, parseJson } from '@slipway/program';
import busboy from 'busboy';

export type Field = readonly [name: string, value: string | number | boolean];

export const FORM_BYTES = 64 * 1024;
export const MOST_FIELDS = 100;
export const LONGEST_NAME = 100;

/** Deep enough to name the field that has a nested value. */
const JSON_BOUND: JsonBound = { bytes: FORM_BYTES, depth: 16, values: 10_000 };
/** Bytes of a field's name. Longer ones are cut, and rejected by their length. */
const NAME_BYTES = 8 * LONGEST_NAME;

export class FormRefusal extends Error {
  constructor(
    readonly status: 400 | 415,
    message: string,
    /** The field's name, which is the visitor's text. */
    readonly field?: string,
  ) {
    super(message);
  }
}

export async function fieldsOf(contentType: string, body: Buffer): Promise<Field[]> {
  const fields = (await decoded(contentType, body)).map(wellFormed);
  if (fields.length > MOST_FIELDS) throw TOO_MANY();
  for (const [name, value] of fields) expectStorable(name, value);
  return fields;
}

function decoded(contentType: string, body: Buffer): Field[] | Promise<Field[]> {
  switch (contentType.split(';', 1)[0]?.trim().toLowerCase()) {
    case 'application/x-www-form-urlencoded':
      return [...new URLSearchParams(body.toString())];
    case 'application/json':
      return jsonFields(body);
    case 'multipart/form-data':
      return multipartFields(contentType, body);
    default:
      throw new FormRefusal(415, 'Send the form as urlencoded, as multipart/form-data, or as application/json.');
  }
}

const TOO_MANY = () => new FormRefusal(400, `The form has more than ${MOST_FIELDS} fields.`);

/** PostgreSQL stores no lone surrogates. */
const wellFormed = ([name, value]: Field): Field => [
  name.toWellFormed(),
  typeof value === 'string' ? value.toWellFormed() : value,
];

function expectStorable(name: string, value: Field[1]): void {
  if (name === '') throw new FormRefusal(400, 'A field has no name.');
  if (name.length > LONGEST_NAME) {
    throw new FormRefusal(400, `The name of a field is longer than ${LONGEST_NAME} characters.`, name);
  }
  if (name.includes('\0') || (typeof value === 'string' && value.includes('\0'))) {
    throw new FormRefusal(400, 'A field has a null character.', name);
  }
}

function jsonFields(body: Buffer): Field[] {
  const value = jsonOf(body);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new FormRefusal(400, 'The JSON must be an object of fields.');
  }
  return Object.entries(value).map(([name, each]): Field => {
    if (typeof each === 'string' || typeof each === 'boolean' || Number.isFinite(each)) return [name, each];
    throw new FormRefusal(400, 'A field is neither text, nor a number, nor true or false.', name);
  });
}

function jsonOf(body: Buffer): unknown {
  try {
    return parseJson(body, JSON_BOUND);
  } catch (error) {
    if (error instanceof JsonRefusal) throw new FormRefusal(400, 'The body is not valid JSON, or has too many values.');
    throw error;
  }
}

/** The whole body is in memory, so the parser reads it to its end, also after a refusal. */
function multipartFields(contentType: string, body: Buffer): Promise<Field[]> {
  const { promise, resolve, reject } = Promise.withResolvers<Field[]>();
  const parser = parserOf(contentType);
  const fields: Field[] = [];
  parser.on('field', (name: string | undefined, value, { mimeType }) => {
    if (mimeType.startsWith('multipart/')) reject(new FormRefusal(415, 'A field has parts of its own.', name));
    fields.push([name ?? '', value]);
  });
  parser.on('file', (name: string | undefined, stream, { filename }) => {
    const refuse = () => reject(new FormRefusal(415, 'A form with files is not accepted.', name));
    // A browser sends an empty file without a name for an input that was left empty.
    if (filename) refuse();
    // The error of a file that ends too early is the parser's too.
    stream.once('data', refuse).on('error', () => undefined);
    stream.resume();
  });
  for (const event of ['partsLimit', 'fieldsLimit', 'filesLimit'] as const) {
    parser.on(event, () => reject(TOO_MANY()));
  }
  parser.on('error', () => reject(new FormRefusal(400, 'The multipart body is not valid, or not complete.')));
  parser.once('close', () => resolve(fields));
  parser.end(body);
  return promise;
}

function parserOf(contentType: string): busboy.Busboy {
  const limits = {
    fields: MOST_FIELDS,
    files: MOST_FIELDS,
    parts: 2 * MOST_FIELDS,
    fieldNameSize: NAME_BYTES,
    fieldSize: FORM_BYTES,
  };
  try {
    return busboy({ headers: { 'content-type': contentType }, limits, defParamCharset: 'utf8' });
  } catch {
    throw new FormRefusal(400, 'The Content-Type of the multipart body has no boundary.');
  }
}
