/**
 * POST /admin/test_mail, which upstream does not have: sends a mail through the project's SMTP server, and tells its
 * owner why that failed.
 */
import { authConfigDigest, canMail } from '@slipway/installation/auth-settings.js';
import { emailMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok, requireAdmin } from '../context.js';
import { AuthError, validationFailed } from '../errors.js';
import { sendBySmtp } from '../mail/smtp.js';
import { escapeHtml } from '../mail/texts.js';

/** Members of an error of nodemailer. */
interface MailError extends Error {
  code?: string;
  /** The last command that was sent. `CONN`: none, so that the server may not be one for mail. */
  command?: string;
  responseCode?: number;
  response?: string;
}

const MOST_QUOTED = 200;

/**
 * Body: `email`, and `settings`, the digest of the settings that the caller has read. Errors: 409 `settings_outdated`
 * if this program has others yet, 422 `mail_not_sent`.
 */
export async function testMail(context: Context): Promise<Answer> {
  requireAdmin(context.request);
  const { request, config, limits, outbound, log } = context;
  const { ref, authConfig } = request.tenant;
  const body = await readJson(request);
  const to = emailMember(body);
  if (!to) throw validationFailed('Unable to validate email address: invalid format');
  if (text(body, 'settings') !== authConfigDigest(authConfig ?? {})) {
    throw new AuthError(409, 'settings_outdated', 'The settings of the project have changed. Try again in a moment');
  }
  if (config.mail.host === undefined) throw notSent(whyNot(context));
  limits.testMail(context);
  try {
    await sendBySmtp(outbound, config, {
      to,
      subject: `Test mail of the project ${ref}`,
      html: `<p>The project ${escapeHtml(ref)} can send mail: this one came through its SMTP server.</p>`,
    });
  } catch (error) {
    const reason = reasonOf(error as MailError);
    log.warn({ requestId: request.requestId, ref, reason: (error as MailError).code }, 'test mail not sent');
    throw notSent(`${config.mail.host}:${config.mail.port}: ${reason}`);
  }
  return ok({ sent: true });
}

const notSent = (why: string) => new AuthError(422, 'mail_not_sent', why);

const whyNot = ({ config }: Context) =>
  canMail(config)
    ? 'A send_email hook sends the mails of this project, so that no SMTP server is used. Test it with a sign-up'
    : 'No SMTP server is set: set smtp_host';

/**
 * The response of a server is quoted once it has greeted as one for mail. Others, which a host name in the settings may
 * lead to, must not be read in this way.
 */
function reasonOf({ code = '', command = '', responseCode, response = '', message }: MailError): string {
  if (responseCode !== undefined && command !== 'CONN') {
    return `the server refused: ${response.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, MOST_QUOTED)}`;
  }
  if (code === 'EAUTH') return 'the server refused the user or the password';
  if (code === 'ETIMEDOUT' || code === 'ECONNECTION') return 'the server does not respond in time';
  if (code === 'ETLS') return 'the server has no valid TLS certificate for this name, or no TLS';
  if (code === 'EDNS' || code === 'ENOTFOUND') return 'there is no such host';
  if (code === 'EPROTOCOL') return 'this is no mail server';
  // An error of the system has the address that the name leads to. A refused address has instructions.
  return /^E[A-Z]+$/.test(code) && code !== 'EADDRESSREFUSED' ? code : message.slice(0, MOST_QUOTED);
}
