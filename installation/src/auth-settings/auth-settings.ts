/**
 * Auth settings of a project, under upstream's GOTRUE_* names. In: the keys of its Secret `auth-config`. Out: every
 * setting with its default, and the invalid ones, which are reported and count as absent, so that they affect no other
 * setting.
 */
import { createHash } from 'node:crypto';
import { type ConfigProblem, ConfigReader, type Setting } from './config-reader.js';
import { hookTargets } from './hooks.js';
import { mailTexts } from './mail-texts.js';
import { providers } from './providers.js';
import { parseSigningKeys } from './signing-keys.js';
import { boolean, characterSets, duration, headerName, integer, line, list, secret, testCodes, url } from './values.js';

const seconds = integer(1, 10 * 365 * 86_400);
const amount = integer(0, 1_000_000);

function general(reader: ConfigReader) {
  return {
    siteUrl: reader.read('SITE_URL', 'http://localhost:3000', url),
    uriAllowList: reader.read('URI_ALLOW_LIST', [], list),
    disableSignup: reader.read('DISABLE_SIGNUP', false, boolean),
    accessTokenSeconds: reader.read('JWT_EXP', 3600, integer(30, 7 * 86_400)),
    /** Read here only to report an invalid value: the gateway uses it. */
    signingKeys: reader.optional('JWT_KEYS', secret(parseSigningKeys)),
    emailEnabled: reader.read('EXTERNAL_EMAIL_ENABLED', true, boolean),
    phoneEnabled: reader.read('EXTERNAL_PHONE_ENABLED', false, boolean),
    anonymousEnabled: reader.read('EXTERNAL_ANONYMOUS_USERS_ENABLED', false, boolean),
    flowStateSeconds: reader.read('EXTERNAL_FLOW_STATE_EXPIRY_DURATION', 300, duration),
    manualLinking: reader.read('SECURITY_MANUAL_LINKING_ENABLED', false, boolean),
  };
}

function mail(reader: ConfigReader) {
  return {
    autoconfirm: reader.optional('MAILER_AUTOCONFIRM', boolean),
    otpSeconds: reader.read('MAILER_OTP_EXP', 3600, seconds),
    otpLength: reader.read('MAILER_OTP_LENGTH', 6, integer(6, 10)),
    secureEmailChange: reader.read('MAILER_SECURE_EMAIL_CHANGE_ENABLED', true, boolean),
    host: reader.optional('SMTP_HOST', line),
    port: reader.read('SMTP_PORT', 587, integer(1, 65_535)),
    user: reader.optional('SMTP_USER', line),
    password: reader.optional('SMTP_PASS', secret(line)),
    from: reader.optional('SMTP_ADMIN_EMAIL', line),
    senderName: reader.optional('SMTP_SENDER_NAME', line),
    /** Seconds between two mails of a kind to one address. */
    frequencySeconds: reader.read('SMTP_MAX_FREQUENCY', 60, duration),
    texts: mailTexts(reader),
  };
}

function sms(reader: ConfigReader) {
  return {
    autoconfirm: reader.read('SMS_AUTOCONFIRM', false, boolean),
    otpSeconds: reader.read('SMS_OTP_EXP', 60, seconds),
    otpLength: reader.read('SMS_OTP_LENGTH', 6, integer(6, 10)),
    frequencySeconds: reader.read('SMS_MAX_FREQUENCY', 60, duration),
    testCodes: reader.read('SMS_TEST_OTP', new Map<string, string>(), secret(testCodes)),
  };
}

function passwords(reader: ConfigReader) {
  return {
    minLength: reader.read('PASSWORD_MIN_LENGTH', 6, integer(6, 72)),
    requiredCharacters: reader.read('PASSWORD_REQUIRED_CHARACTERS', [], characterSets),
    reauthenticate: reader.read('SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION', false, boolean),
  };
}

function sessions(reader: ConfigReader) {
  return {
    reuseSeconds: reader.read('SECURITY_REFRESH_TOKEN_REUSE_INTERVAL', 10, integer(0, 3600)),
    timeboxSeconds: reader.optional('SESSIONS_TIMEBOX', duration),
    inactivitySeconds: reader.optional('SESSIONS_INACTIVITY_TIMEOUT', duration),
    single: reader.read('SESSIONS_SINGLE_PER_USER', false, boolean),
  };
}

function mfa(reader: ConfigReader) {
  return {
    maxFactors: reader.read('MFA_MAX_ENROLLED_FACTORS', 10, integer(0, 100)),
    maxVerified: reader.read('MFA_MAX_VERIFIED_FACTORS', 10, integer(0, 100)),
    challengeSeconds: reader.read('MFA_CHALLENGE_EXPIRY_DURATION', 300, seconds),
    factorSeconds: reader.read('MFA_FACTOR_EXPIRY_DURATION', 300, duration),
    attemptsPerMinute: reader.read('MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY', 15, integer(1, 1000)),
    enrollEnabled: reader.read('MFA_TOTP_ENROLL_ENABLED', true, boolean),
    verifyEnabled: reader.read('MFA_TOTP_VERIFY_ENABLED', true, boolean),
  };
}

/** Limits by kind, each in upstream's interval. */
function limits(reader: ConfigReader) {
  return {
    emailsPerHour: reader.read('RATE_LIMIT_EMAIL_SENT', 30, amount),
    smsPerHour: reader.read('RATE_LIMIT_SMS_SENT', 30, amount),
    verifyPer5Minutes: reader.read('RATE_LIMIT_VERIFY', 30, amount),
    otpPer5Minutes: reader.read('RATE_LIMIT_OTP', 30, amount),
    anonymousPerHour: reader.read('RATE_LIMIT_ANONYMOUS_USERS', 30, amount),
    /** Header in which a proxy sends the caller's address; unset: the connection's address counts. */
    addressHeader: reader.optional('RATE_LIMIT_HEADER', headerName),
    tokenPer5Minutes: reader.optional('RATE_LIMIT_TOKEN_REFRESH', amount),
  };
}

export type AuthConfig = ReturnType<typeof read>;

function read(reader: ConfigReader) {
  return {
    ...general(reader),
    mail: mail(reader),
    sms: sms(reader),
    passwords: passwords(reader),
    sessions: sessions(reader),
    mfa: mfa(reader),
    limits: limits(reader),
    hooks: hookTargets(reader),
    providers: providers(reader),
  };
}

export function readAuthConfig(values: Readonly<Record<string, string>> = {}): {
  config: AuthConfig;
  problems: ConfigProblem[];
} {
  const reader = new ConfigReader(values);
  const config = read(reader);
  return { config, problems: [...reader.problems, ...reader.unknown()] };
}

/**
 * Returns each setting with its type and value, and the invalid ones. A provider has settings once one of them is set.
 */
export function readAuthSettings(values: Readonly<Record<string, string>> = {}): {
  settings: Setting[];
  problems: ConfigProblem[];
} {
  const reader = new ConfigReader(values);
  read(reader);
  return { settings: reader.known(), problems: [...reader.problems, ...reader.unknown()] };
}

/** Returns a hash of the texts, so that two programs can compare theirs. */
export function authConfigDigest(values: Readonly<Record<string, string>>): string {
  const sorted = Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('base64url');
}

/** True if mails can be sent. Otherwise addresses count as confirmed, because nobody could confirm them. */
export const canMail = (config: AuthConfig) => config.mail.host !== undefined || config.hooks.send_email !== undefined;
export const canText = (config: AuthConfig) => config.hooks.send_sms !== undefined;
export const confirmsEmail = (config: AuthConfig) => !(config.mail.autoconfirm ?? !canMail(config));
