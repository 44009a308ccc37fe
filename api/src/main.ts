/** The API as a program: settings from the environment, and an end when the supervisor's channel or a signal says so. */
import { settingsFromEnvironment, startApi } from './index.js';

try {
  const api = await startApi(settingsFromEnvironment(process.env));
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= api.close();
    void ending.finally(() => process.exit(0));
  };
  process.once('disconnect', end);
  process.once('SIGTERM', end);
  process.once('SIGINT', end);
} catch (error) {
  process.stderr.write(`api: ${(error as Error).message}\n`);
  process.exit(1);
}
