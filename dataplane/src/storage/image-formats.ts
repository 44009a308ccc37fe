/**
 * The image formats that libvips may decode here, each recognised by its magic bytes before a decoder sees the file.
 * Whatever the object's name or MIME type says, SVG, PDF and every format that is not in this list reach no decoder.
 */
import sharp from 'sharp';

export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'heif' | 'tiff';

/** libvips' names of the loaders. Those that are not here are blocked in this process. */
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

/** The major and the compatible brands of an ISO base media file: only AVIF is decoded, no HEIC. */
function brandsOf(bytes: Buffer): string[] {
  const end = Math.min(bytes.readUInt32BE(0), bytes.length, 16 + 4 * MOST_BRANDS);
  const brands = [ascii(bytes, 8, 12)];
  for (let at = 16; at + 4 <= end; at += 4) brands.push(ascii(bytes, at, at + 4));
  return brands;
}

/** Returns the format that the first bytes name; undefined for every format that is not decoded. */
export function formatOf(bytes: Buffer): ImageFormat | undefined {
  if (bytes.length < 16) return undefined;
  return (Object.keys(MAGIC) as ImageFormat[]).find((format) => MAGIC[format](bytes));
}

/**
 * Blocks all other decoders of libvips, so that a file that is two formats at once is read as the one that was checked.
 */
export function blockOtherDecoders(): void {
  sharp.block({ operation: ['VipsForeignLoad'] });
  sharp.unblock({ operation: LOADERS });
}
