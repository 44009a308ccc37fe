/** Mail settings: read from the environment and checked, for `settings.ts`. */

export interface MailSettings {
  /** URL of the server, `smtp://` or `smtps://`, with the login. */
  url: string;
  from: string;
}

/** Reads the mail settings. `file` reads the file whose path a variable contains. */
export function mailSettings(
  environment: NodeJS.ProcessEnv,
  file: (variable: string) => string,
): MailSettings | undefined {
  if (!environment.SLIPWAY_SMTP_URL) return undefined;
  const url = file('SLIPWAY_SMTP_URL');
  const from = environment.SLIPWAY_SMTP_FROM;
  if (!isSmtp(url)) {
    throw new Error(
      'SLIPWAY_SMTP_URL: the file must hold one URL, such as smtp://user:password@mail.example.com:587, or smtps://…',
    );
  }
  if (!from || !/^[^\s<>]+@[^\s<>]+$|^[^<>\r\n]+ <[^\s<>]+@[^\s<>]+>$/.test(from))
    throw new Error('SLIPWAY_SMTP_FROM must be the address that mails come from, such as noreply@example.com');
  return { url, from };
}

const isSmtp = (text: string) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^smtps?:$/.test(url.protocol) && url.hostname !== '';
};
