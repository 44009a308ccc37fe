/** `npm run fixture -- <release>`: writes the state of an upgrade's test with this release into e2e/fixtures/<release>. */
import { rm } from 'node:fs/promises';
import { newPlace, startPlatform } from '../platform.js';
import { pack } from './home-archive.js';
import { ENVIRONMENT, writeState } from './written-state.js';

const [release = ''] = process.argv.slice(2);
if (!/^[0-9a-z][0-9a-z.-]*$/.test(release)) {
  console.error('usage: npm run fixture -- <release>, such as 0.2.0');
  process.exit(2);
}

const place = await newPlace();
const platform = await startPlatform(place, ENVIRONMENT);
try {
  const state = await writeState(platform);
  await platform.stop();
  console.log(await pack(place.home, release, state));
} finally {
  await platform.kill();
  await rm(place.home, { recursive: true, force: true });
}
// The channel to the platform's process stays open.
process.exit(0);
