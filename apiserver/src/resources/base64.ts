/** Where standard base64 goes wrong, as Go's decoder says it, or undefined when it is sound. */
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
