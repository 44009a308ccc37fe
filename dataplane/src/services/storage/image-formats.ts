/**
 * Image formats that libvips may decode here, recognised by their magic bytes before decoding. Whatever an object's
 * name or MIME type, SVG, PDF and every other unlisted format reach no decoder.
 */
import sharp from 'sharp';

export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'heif' | 'tiff';

/** Names of the loaders of libvips that may be used. All others are blocked in this process. */
const LOADERS = [
  'VipsForeignLoadJpegBuffer',
  'VipsForeignLoadPngBuffer',
  'VipsForeignLoadWebpBuffer',
  'VipsForeignLoadNsgifBuffer',
  'VipsForeignLoadHeifBuffer',
  'VipsForeignLoadTiffBuffer',
];

const ascii = (bytes: Buffer, start: number, end: number) => bytes.toString('latin1', start, end);

const MAGIC: Readonly<Record<ImageFormat, (bytes: Buffer) => boolean>> = {
  jpeg: (bytes) => bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff,
  png: (bytes) => ascii(bytes, 0, 8) === '\x89PNG\r\n\x1a\n' && ascii(bytes, 12, 16) === 'IHDR',
  webp: (bytes) => ascii(bytes, 0, 4) === 'RIFF' && /^WEBPVP8[ LX]$/.test(ascii(bytes, 8, 16)),
  gif: (bytes) => /^GIF8[79]a$/.test(ascii(bytes, 0, 6)),
  heif: (bytes) => ascii(bytes, 4, 8) === 'ftyp' && brandsOf(bytes).some((brand) => brand === 'avif'),
  tiff: (bytes) => /^(II\*\0|MM\0\*)/.test(ascii(bytes, 0, 4)),
};

const MOST_BRANDS = 16;

/** Major and compatible brands of an ISO base media file: AVIF is decoded, HEIC is not. */
function brandsOf(bytes: Buffer): string[] {
  const end = Math.min(bytes.readUInt32BE(0), bytes.length, 16 + 4 * MOST_BRANDS);
  const brands = [ascii(bytes, 8, 12)];
  for (let at = 16; at + 4 <= end; at += 4) brands.push(ascii(bytes, at, at + 4));
  return brands;
}

/** Returns the format of the first bytes; undefined for a format that is not decoded. */
export function formatOf(bytes: Buffer): ImageFormat | undefined {
  if (bytes.length < 16) return undefined;
  return (Object.keys(MAGIC) as ImageFormat[]).find((format) => MAGIC[format](bytes));
}

/** Blocks all other decoders of libvips, so that a file of two formats at once is decoded as the checked one. */
export function blockOtherDecoders(): void {
  sharp.block({ operation: ['VipsForeignLoad'] });
  sharp.unblock({ operation: LOADERS });
}
