/** Tests files with a false type, at the render routes of a running storage service. */
import { gzipSync } from 'node:zlib';
import sharp from 'sharp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { formatOf } from './image-formats.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let project: StorageProject;

test.before(async () => {
  harness = await startStorageHarness();
  project = await harness.project('blog');
  await project.sql(`insert into storage.buckets (id, name, public) values ('open', 'open', true)`);
});

test.after(() => harness?.close());

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';
const red = () => sharp({ create: { width: 40, height: 20, channels: 3, background: 'red' } });
const bytes = (text: string) => Buffer.from(text, 'latin1');
const ftyp = (major: string, ...compatible: string[]) => {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(16 + 4 * compatible.length);
  return Buffer.concat([size, bytes(`ftyp${major}\0\0\0\0${compatible.join('')}`), Buffer.alloc(64)]);
};

const LIARS: Readonly<Record<string, Buffer>> = {
  SVG: bytes(SVG),
  'SVG after an XML declaration': bytes(`<?xml version="1.0"?>\n${SVG}`),
  'SVG after a comment and spaces': bytes(`\n  <!-- ${'x'.repeat(500)} -->\n${SVG}`),
  'SVG in UTF-16': Buffer.from(`\ufeff${SVG}`, 'utf16le'),
  'SVG with external entities': bytes(`<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>${SVG}`),
  SVGZ: gzipSync(SVG),
  PDF: bytes(`%PDF-1.7\n${'x'.repeat(100)}\n%%EOF`),
  PostScript: bytes('%!PS-Adobe-3.0 EPSF-3.0\n(/etc/passwd) (r) file'),
  MVG: bytes('push graphic-context\nviewbox 0 0 9 9\nimage over 0,0 9,9 "url(http://127.0.0.1/)"\npop graphic-context'),
  MSL: bytes('<?xml version="1.0"?><image><read filename="/etc/passwd"/></image>'),
  PPM: bytes(`P6 9 9 255\n${'x'.repeat(243)}`),
  HEIC: ftyp('heic', 'mif1', 'heic'),
  MP4: ftyp('isom', 'mp41'),
  BigTIFF: Buffer.concat([bytes('II+\0\x08\0\0\0'), Buffer.alloc(64)]),
  BMP: Buffer.concat([bytes('BM'), Buffer.alloc(64)]),
  'JPEG XL': Buffer.concat([bytes('\xff\x0a'), Buffer.alloc(64)]),
  FITS: bytes('SIMPLE  =                    T'.padEnd(80)),
  'a PNG signature that is cut': bytes('\x89PNG\r\n'),
  'a PNG signature before SVG': bytes(`\x89PNG\r\n\x1a\n${SVG}`),
  'RIFF that is no WebP': bytes(`RIFF\x40\0\0\0WAVEfmt ${'x'.repeat(50)}`),
  'SVG before a PNG': Buffer.concat([bytes(SVG), bytes('\x89PNG\r\n\x1a\n')]),
  nothing: Buffer.alloc(0),
};

for (const [what, body] of Object.entries(LIARS)) {
  test(`the render route rejects ${what} before decoding, although the object has the type image/png`, async () => {
    assert.is(formatOf(body), undefined);
    const bucket = (await project.client()).from('open');
    assert.is((await bucket.upload('liar.png', body, { contentType: 'image/png', upsert: true })).error, null);
    const answer = await project.fetch('/render/image/public/open/liar.png?width=5');
    assert.is(answer.status, 400);
    assert.match(await answer.text(), /Only JPEG, PNG, WebP, GIF, AVIF and TIFF images can be resized/);
  });
}

test('a decoder that is not in the list is blocked in the process', async () => {
  for (const body of [bytes(SVG), gzipSync(SVG), bytes(`<?xml version="1.0"?>\n${SVG}`)]) {
    const error = await sharp(body)
      .metadata()
      .catch((caught) => caught);
    assert.match(error.message, /unsupported image format/);
  }
});

test('a file with the magic bytes of one format is never decoded as another', async () => {
  const bucket = (await project.client()).from('open');
  for (const start of ['\xff\xd8\xff\xe0', 'GIF89a', 'II*\0', 'RIFF\x40\0\0\0WEBPVP8 ']) {
    await bucket.upload('both.png', bytes(`${start}\n${SVG}${'\0'.repeat(64)}`), { upsert: true });
    const answer = await project.fetch('/render/image/public/open/both.png?width=5');
    assert.is(answer.status, 400, start);
    assert.match(await answer.text(), /The image can not be resized/);
  }
});

test('the render route decodes every listed format, whatever the object’s type', async () => {
  const bucket = (await project.client()).from('open');
  for (const format of ['jpeg', 'png', 'webp', 'gif', 'avif', 'tiff'] as const) {
    const body = await red()[format]().toBuffer();
    await bucket.upload('image.svg', body, { contentType: 'image/svg+xml', upsert: true });
    const answer = await project.fetch('/render/image/public/open/image.svg?width=10');
    assert.is(answer.status, 200, format);
    assert.is((await sharp(Buffer.from(await answer.arrayBuffer())).metadata()).width, 10, format);
  }
});

test.run();
