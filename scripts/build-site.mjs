/** `npm run build-site -- REPOSITORY --to=FOLDER`: builds a site as the platform does, without a platform. */
import { helpOr } from './help.mjs';
import { prepare, runNode } from './prepare.mjs';

helpOr(`npm run build-site -- REPOSITORY --to=FOLDER [options]

Clones, installs, builds and publishes a site as the platform does on one machine, without a platform. Prints one line
of JSON for each event. The exit code is that of the command that failed: 128 if git was denied access.

  REPOSITORY                the URL of a git repository: https or ssh
  --to=FOLDER               the folder of sites: the files are in FOLDER/<site>/deployments/<build>/files
  --site=NAME               the name of the site (site)
  --revision=NAME           a branch, tag or commit (main)
  --root-dir=FOLDER         the folder of the site in the repository
  --install-command=TEXT    the commands and the folder of the output. What is not set is detected; an empty command
  --build-command=TEXT      means no step
  --output-dir=FOLDER
  --env-file=FILE           variables of the commands: NAME=value in each line
  --token-file=FILE         the file of a git token, for https
  --deploy-key-file=FILE    the file of a private key, for ssh
  --cache=FOLDER            a folder that keeps packages for the next build of this site
  --submodules              clones submodules too
  --minutes=N               maximum time (20)
  --memory-mib=N            maximum memory (4096)

Five deployments are kept beside the newest.

SLIPWAY_ALLOWED_NETWORKS and SLIPWAY_CA_FILE apply as in docs/settings.md.`);

prepare();
runNode(['kaniko-build-wrapper/dist/command-line/main.js', ...process.argv.slice(2)]);
