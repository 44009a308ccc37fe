import { availableParallelism, cpus, release, totalmem } from 'node:os';

export interface Machine {
  processor: string;
  cores: number;
  memoryGiB: number;
  system: string;
  node: string;
}

export function describeMachine(): Machine {
  return {
    processor: cpus()[0]?.model.trim() || process.arch,
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${release()}`,
    node: process.version,
  };
}
