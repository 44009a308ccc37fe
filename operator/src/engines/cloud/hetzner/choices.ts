/** Chooses the types of machines for the sizes that plans name. In: the provider's types. Out: choices, by location. */
import { MACHINE_SIZES, type MachineSize, type Region } from '@slipway/crds';
import type { MachineChoice } from '../provider.js';
import type { ServerType } from './schemas.js';

/**
 * The locations of a region, in the order in which they are tried: the region's own, then others in the same network
 * zone of the provider, which is also the same jurisdiction.
 */
const LOCATIONS: Readonly<Record<Region, readonly string[]>> = {
  'eu-central': ['fsn1', 'nbg1', 'hel1'],
  'eu-west': ['nbg1', 'fsn1', 'hel1'],
  'eu-north': ['hel1', 'fsn1', 'nbg1'],
  'us-east': ['ash'],
  'us-west': ['hil'],
  'ap-south': ['sin'],
};

/** The programs that are installed on a machine are for this architecture. */
const ARCHITECTURE = 'x86';

export function choicesOf(types: readonly ServerType[], region: Region): MachineChoice[] {
  const sizes = Object.keys(MACHINE_SIZES) as MachineSize[];
  return sizes.flatMap((size) => LOCATIONS[region].flatMap((location) => cheapest(types, size, location) ?? []));
}

function cheapest(types: readonly ServerType[], size: MachineSize, location: string): MachineChoice | undefined {
  const needed = MACHINE_SIZES[size];
  const choices = types
    .filter(({ architecture, cores, memory, disk }) => {
      const isLarge = cores >= needed.cores && memory >= needed.memoryGb && disk >= needed.diskGb;
      return architecture === ARCHITECTURE && isLarge;
    })
    .filter((type) => isOffered(type, location))
    .flatMap(({ name, cores, memory, disk, prices }): MachineChoice[] => {
      const price = prices.find((each) => each.location === location);
      if (!price) return [];
      const eurosPerMonth = Number(price.price_monthly.net);
      return [{ size, type: name, location, cores, memoryGb: memory, diskGb: disk, eurosPerMonth }];
    });
  return choices.toSorted((a, b) => a.eurosPerMonth - b.eurosPerMonth || (a.type < b.type ? -1 : 1))[0];
}

function isOffered({ locations }: ServerType, location: string): boolean {
  const there = locations.find(({ name }) => name === location);
  return there !== undefined && there.available !== false && !there.deprecation;
}
