/** Tests that this release opens a home of an earlier release. Keys, logins, data and tokens must stay. */
import { test } from 'uvu';
import { newPlace, startPlatform } from './platform.js';
import { readStateFile, storedFixtures } from './upgrade/fixtures.js';
import { unpackHome } from './upgrade/home-archive.js';
import { checkState, ENVIRONMENT } from './upgrade/written-state.js';

for (const fixture of await storedFixtures('home')) {
  test(`a home of release ${fixture.release} opens with its keys, data, accounts and tokens`, async () => {
    const place = await newPlace();
    await unpackHome(fixture.archive, place.home);
    const platform = await startPlatform(place, ENVIRONMENT);
    try {
      await checkState(platform, await readStateFile(fixture));
    } finally {
      await platform.remove();
    }
  });
}

test.run();
