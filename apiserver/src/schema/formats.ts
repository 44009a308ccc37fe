import { isIP, isIPv4, isIPv6 } from 'node:net';

/**
 * The formats that the API server enforces (k8s.io/kube-openapi/pkg/validation/strfmt). Other formats are only hints.
 */
const FORMATS: Record<string, (text: string) => boolean> = {
  date: (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && isCalendarDay(text),
  datetime: isDateTime,
  duration: isDuration,
  email: isEmail,
  uri: isUri,
  hostname: isHostname,
  ipv4: isIPv4,
  ipv6: isIPv6,
  cidr: isCidr,
  mac: (text) => /^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$|^[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2}$/.test(text),
  byte: (text) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
  uuid: (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i.test(text),
  uuid3: (text) => isUuidOfVersion(text, '3'),
  uuid4: (text) => isUuidOfVersion(text, '4'),
  uuid5: (text) => isUuidOfVersion(text, '5'),
  hexcolor: (text) => /^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$/.test(text),
  isbn10: (text) => /^(\d{9}[\dX])$/.test(text.replaceAll('-', '')),
  isbn13: (text) => /^\d{13}$/.test(text.replaceAll('-', '')),
  ssn: (text) => /^\d{3}[- ]?\d{2}[- ]?\d{4}$/.test(text),
  bsonobjectid: (text) => /^[0-9a-fA-F]{24}$/.test(text),
  rgbcolor: (text) => /^rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)$/.test(text),
};

/** Maximum length of a text that matches a format other than `byte`. It also limits the time of the checks. */
const LONGEST = 4096;

export function formatCheck(format: string): ((text: string) => boolean) | undefined {
  const check = FORMATS[format.replaceAll('-', '')] ?? FORMATS[format];
  if (!check || format === 'byte') return check;
  return (text) => text.length <= LONGEST && check(text);
}

function isCalendarDay(text: string): boolean {
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}

function isDateTime(text: string): boolean {
  const parts = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})$/.exec(text);
  if (!parts) return false;
  const [, day, hour, minute, second] = parts;
  return isCalendarDay(day ?? '') && Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60;
}

function isDuration(text: string): boolean {
  const go = /^[-+]?(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))*$/;
  return (
    text === '0' ||
    go.test(text) ||
    /^\d+\s*(ns|us|ms|s|m|h|d|w|(nano|micro|milli)?seconds?|minutes?|hours?|days?|weeks?)$/.test(text)
  );
}

/** True for an address that Go's `net/mail` accepts, without a display name. */
function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@');
  if (at < 1 || at === text.length - 1) return false;
  const atoms = (part: string) => part.split('.').every((atom) => /^[^\s()<>@,;:\\".[\]\u0000-\u001f]+$/.test(atom));
  const local = text.slice(0, at);
  return (atoms(local) || /^"([^"\\]|\\.)*"$/.test(local)) && atoms(text.slice(at + 1));
}

/**
 * True for a URI that Go's `url.ParseRequestURI` accepts: an absolute URI or path, without spaces or control
 * characters.
 */
function isUri(text: string): boolean {
  if (text === '' || /[\u0000-\u0020\u007f]/.test(text) || /%(?![0-9a-fA-F]{2})/.test(text)) return false;
  return text.startsWith('/') || /^[a-zA-Z][a-zA-Z0-9+.-]*:/.test(text);
}

function isHostname(text: string): boolean {
  return (
    text.length <= 255 && text.split('.').every((label) => /^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/.test(label))
  );
}

function isCidr(text: string): boolean {
  const slash = text.indexOf('/');
  const family = isIP(text.slice(0, Math.max(slash, 0)));
  const bits = text.slice(slash + 1);
  return family !== 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

const isUuidOfVersion = (text: string, version: string) =>
  new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$`, 'i').test(text);
