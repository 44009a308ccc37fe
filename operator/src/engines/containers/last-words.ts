/** Short texts for owners of what a container or its engine printed last. */
import { Refused } from '@slipway/kaniko-build-wrapper';
import type { CommandFailed } from './system-command.js';

const WORDS_SHOWN = 300;

/** Returns the refusal, or the last line of podman's complaint, such as that the image has no such command. */
export function whyNotStarted(error: CommandFailed | Refused): string {
  const words = error instanceof Refused ? error.message : (error.complaint.split('\n').at(-1) ?? '');
  return words
    .replace(/^Error: /, '')
    .slice(0, WORDS_SHOWN)
    .toWellFormed();
}

/** Returns the end of an output, on one line. A terminal that shows the status must not obey it. */
export const shownWords = (text: string): string =>
  text
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .slice(-WORDS_SHOWN)
    .toWellFormed();
