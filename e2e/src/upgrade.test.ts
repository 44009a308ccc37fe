/** A home that an earlier release wrote opens under this one: the same keys, logins, data and tokens. */
import { test } from 'uvu';
import { newPlace, startPlatform } from './platform.js';
import { storedReleases, unpack } from './upgrade/home-archive.js';
import { checkState, ENVIRONMENT } from './upgrade/written-state.js';

for (const release of await storedReleases()) {
  test(`a home of release ${release} opens with its keys, data, accounts and tokens`, async () => {
    const place = await newPlace();
    const state = await unpack(release, place.home);
    const platform = await startPlatform(place, ENVIRONMENT);
    try {
      await checkState(platform, state);
    } finally {
      await platform.remove();
    }
  });
}

test.run();
