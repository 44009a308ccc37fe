// By default SIGHUP ends a process. While the program starts it needs no other reaction: the file is read afterwards.
process.on('SIGHUP', () => undefined);

const [{ runProgram }, { startUnit }, { readUnitSettings }] = await Promise.all([
  import('@slipway/program'),
  import('./index.js'),
  import('./settings.js'),
]);

await runProgram(
  'machine-service',
  () => readUnitSettings(process.env),
  async (settings) => {
    const { close } = await startUnit(settings);
    return { close };
  },
);
