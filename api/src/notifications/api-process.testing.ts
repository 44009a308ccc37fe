/**
 * The API as a process that a test can kill. In: `API_SETTINGS`, its settings as JSON, and `API_CLOCK`, a file with the
 * milliseconds by which its clock is ahead.
 */
import { readFileSync } from 'node:fs';
import { type ApiSettings, startApi } from '../index.js';

const settings = JSON.parse(process.env.API_SETTINGS ?? '{}') as ApiSettings;
const clock = process.env.API_CLOCK ?? '';
const now = () => new Date(Date.now() + Number(readFileSync(clock, 'utf8')));
settings.accounts.setupCode = () => undefined;
await startApi({ ...settings, now });
process.send?.('started');
