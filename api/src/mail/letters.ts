/** The texts of mails to accounts: plain text, in which a caller's value cannot become a header or a link. */

export interface Letter {
  subject: string;
  text: string;
}

/** Shortens `value` to one line: the names of tokens and clients are hostile input. */
const quoted = (value: string) => JSON.stringify(value.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ').slice(0, 200));
const paragraphs = (...lines: string[]) => `${lines.join('\n\n')}\n`;

export const letters = {
  verify: (platform: string, link: string): Letter => ({
    subject: 'Verify your e-mail address',
    text: paragraphs(
      `Somebody registered this address, or changed an account to it, at ${platform}.`,
      `If it was you, open this link and enter the password of your account. It works once, for 24 hours:\n${link}`,
      'If it was not you, do nothing.',
    ),
  }),
  reset: (platform: string, link: string): Letter => ({
    subject: 'Set a new password',
    text: paragraphs(
      `Somebody requested a new password for the account of this address at ${platform}.`,
      `If it was you, open this link. It works once, for one hour:\n${link}`,
      'If it was not you, do nothing: your password stays as it is.',
    ),
  }),
  signInCode: (platform: string, code: string): Letter => ({
    subject: 'Code to sign in',
    text: paragraphs(
      `Somebody who knows your password signs in to your account at ${platform} from a new network.`,
      `If it is you, send this code as "code" with POST /auth/login. It works once, for 15 minutes:\n${code}`,
      'If it is not you: change your password (POST /auth/password).',
    ),
  }),
  invitation: (platform: string, code: string): Letter => ({
    subject: 'Invitation',
    text: paragraphs(
      `You may register an account with this address at ${platform}.`,
      `Send this code as "code" with POST /auth/register. It works once:\n${code}`,
      'If you do not want an account, do nothing.',
    ),
  }),
  password: (platform: string): Letter => ({
    subject: 'Your password was changed',
    text: paragraphs(
      `The password of your account at ${platform} was changed, and all other sessions were ended.`,
      'If this was not you: set a new password with POST /auth/password/forgot, and inform your administrator.',
    ),
  }),
  address: (platform: string, address: string): Letter => ({
    subject: 'The e-mail address of your account is being changed',
    text: paragraphs(
      `The account of this address at ${platform} requested to change its address to ${quoted(address)}.`,
      'If this was not you: change your password (POST /auth/password), or inform your administrator.',
    ),
  }),
  addressChanged: (platform: string, address: string): Letter => ({
    subject: 'The e-mail address of your account was changed',
    text: paragraphs(
      `The account of this address at ${platform} has the address ${quoted(address)} now.`,
      'If this was not you: inform your administrator.',
    ),
  }),
  administrator: (platform: string): Letter => ({
    subject: 'You are an administrator',
    text: paragraphs(`Your account at ${platform} was made an administrator.`),
  }),
  project: (platform: string, ref: string): Letter => ({
    subject: 'A project was assigned to you',
    text: paragraphs(`Your account at ${platform} owns the project ${quoted(ref)} now.`),
  }),
  projectGone: (platform: string, ref: string): Letter => ({
    subject: 'A project was taken from you',
    text: paragraphs(
      `The project ${quoted(ref)} at ${platform} no longer belongs to your account: another one owns it.`,
      'If you did not expect this: ask your administrator. GET /auth/me lists the projects that your account lost.',
    ),
  }),
} as const;
