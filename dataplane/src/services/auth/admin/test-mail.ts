/**
 * POST /admin/test_mail, which upstream does not have: sends a mail through the project's SMTP server, and tells its
 * owner why that failed.
 */
import { authConfigDigest, canMail } from '@slipway/installation/auth-settings.js';
import { emailMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok, requireAdmin } from '../context.js';
import { AuthError, validationFailed } from '../errors.js';
import { whyNotSent } from '../mail/failure.js';
import { sendBySmtp } from '../mail/smtp.js';
import { escapeHtml } from '../mail/texts.js';

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
    log.warn({ requestId: request.requestId, ref, reason: (error as { code?: string }).code }, 'test mail not sent');
    throw notSent(`${config.mail.host}:${config.mail.port}: ${whyNotSent(error)}`);
  }
  return ok({ sent: true });
}

const notSent = (why: string) => new AuthError(422, 'mail_not_sent', why);

const whyNot = ({ config }: Context) =>
  canMail(config)
    ? 'A send_email hook sends the mails of this project, so that no SMTP server is used. Test it with a sign-up'
    : 'No SMTP server is set: set smtp_host';
