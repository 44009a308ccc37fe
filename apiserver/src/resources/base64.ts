/** Returns the first error in standard base64 with the message of Go's decoder, or undefined if it is valid. */
export function base64Problem(text: string): string | undefined {
  const clean = text.replace(/[\r\n]/g, '');
  const bad = clean.search(/[^A-Za-z0-9+/=]/);
  if (bad >= 0) return `illegal base64 data at input byte ${bad}`;
  const padding = clean.indexOf('=');
  if (clean.length % 4 !== 0)
    return `illegal base64 data at input byte ${padding >= 0 ? padding : clean.length - (clean.length % 4)}`;
  if (padding >= 0 && (padding < clean.length - 2 || /=[^=]/.test(clean)))
    return `illegal base64 data at input byte ${padding}`;
  return undefined;
}
