/**
 * Writes the context that Kaniko builds from: a Dockerfile and scripts, beside the sources. In: commands and variables
 * of the tenant. Out: files. The Dockerfile has no value of a tenant. Commands and variables are in files that the
 * shell reads inside of the build.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CONTEXT, OUTPUT_IN_IMAGE } from './order.js';

export interface ContextSteps {
  /** The reference of an image of Node. */
  image: string;
  /** The project's folder, relative to the top of the sources. */
  rootDir: string;
  installCommand: string;
  buildCommand: string;
  /** Relative to the project's folder. Undefined if only the build can show it. */
  outputDir: string | undefined;
  /** The package manager and its version, which the image does not have. Undefined: npm of the image. */
  managerPackage: string | undefined;
  /** Public variables: COMMIT_SHA, BRANCH and SITE_URL. */
  deployment: Readonly<Record<string, string>>;
  env: Readonly<Record<string, string>>;
  certificates: string | undefined;
  egressUrl: string;
  processes: number;
  mark: string;
}

const SOURCE = 'source';
/** The folder of the sources and scripts inside of the build. */
const INSIDE = '/build';
/** Possible output folders of unknown frameworks, in the order of the search. */
const OUTPUTS = 'dist build out public _site';

const DOCKERFILE = (image: string) => `FROM ${image} AS build
COPY ${SOURCE} ${INSIDE}/${SOURCE}
COPY steps ${INSIDE}/steps
RUN ["/bin/sh", "${INSIDE}/steps/run", "Installing"]
RUN ["/bin/sh", "${INSIDE}/steps/run", "Building"]
RUN ["/bin/sh", "${INSIDE}/steps/collect"]
FROM scratch
COPY --from=build ${INSIDE}/output /${OUTPUT_IN_IMAGE}
`;
const PLAIN = `FROM scratch
COPY static /${OUTPUT_IN_IMAGE}
`;

/**
 * Script that runs one step. $1 is the step, which is also the name of its command file. The option of ulimit is -u in
 * bash and -p in dash.
 */
const RUN = `. ${INSIDE}/steps/settings
command=$(cat "${INSIDE}/steps/$1")
if [ -z "$command" ]; then exit 0; fi
printf '%s%s\\n' "$MARK" "$1"
ulimit -u "$PROCESSES" 2>/dev/null || ulimit -p "$PROCESSES" 2>/dev/null
. ${INSIDE}/steps/environment
if [ "$1" = Installing ] && [ -n "$MANAGER" ]; then
  npm install --global --no-audit --no-fund --loglevel=error -- "$MANAGER" || exit $?
fi
cd "$ROOT" || exit 1
printf '$ %s\\n' "$command"
unset MARK
(eval "$command")
code=$?
. ${INSIDE}/steps/settings
[ "$code" = 0 ] || printf '%sexit %s\\n' "$MARK" "$code"
exit "$code"
`;

/** Script that finds the output, which must be below the sources after all links are resolved. */
const COLLECT = `. ${INSIDE}/steps/settings
cd "$ROOT" || exit 1
if [ -z "$OUTPUT" ]; then
  OUTPUT=.
  for name in ${OUTPUTS}; do if [ -d "$name" ] && [ ! -L "$name" ]; then OUTPUT=$name; break; fi; done
fi
real=$(realpath -- "$OUTPUT" 2>/dev/null) || real=
case $real in
  ${INSIDE}/${SOURCE} | ${INSIDE}/${SOURCE}/*) ;;
  *) printf '%srefused output_dir does not exist below the repository. %s\\n' "$MARK" \\
      'Set the folder that the build makes.'; exit 1 ;;
esac
if [ ! -d "$real" ]; then printf '%srefused output_dir is not a folder.\\n' "$MARK"; exit 1; fi
mkdir ${INSIDE}/output && cp -a -- "$real/." ${INSIDE}/output/
`;

/** `context` is a folder with the sources in `source`. */
export function writeContext(steps: ContextSteps, context = CONTEXT): void {
  mkdirSync(path.join(context, 'steps'));
  const write = (name: string, text: string) => writeFileSync(path.join(context, name), text, { mode: 0o644 });
  write('Dockerfile', DOCKERFILE(steps.image));
  write('steps/run', RUN);
  write('steps/collect', COLLECT);
  write('steps/Installing', steps.installCommand);
  write('steps/Building', steps.buildCommand);
  write('steps/settings', settings(steps));
  write('steps/environment', environment(steps));
  if (steps.certificates !== undefined) write('steps/certificates.pem', steps.certificates);
}

/**
 * Writes a context for an output that exists already: nothing runs, and no image is pulled. `output` is a real path in
 * the sources.
 */
export function writePlainContext(output: string, context = CONTEXT): void {
  renameSync(output, path.join(context, 'static'));
  writeFileSync(path.join(context, 'Dockerfile'), PLAIN, { mode: 0o644 });
}

const settings = ({ rootDir, outputDir = '', managerPackage = '', processes, mark }: ContextSteps) =>
  assignments({
    ROOT: path.posix.join(INSIDE, SOURCE, rootDir),
    OUTPUT: outputDir === '' ? '' : path.posix.join('.', outputDir),
    MANAGER: managerPackage,
    PROCESSES: String(processes),
    MARK: mark,
  });

function environment({ egressUrl, certificates, deployment, env }: ContextSteps): string {
  const here = 'localhost,127.0.0.1,::1';
  const ours = {
    CI: 'true',
    ...deployment,
    LANG: 'C.UTF-8',
    HTTP_PROXY: egressUrl,
    HTTPS_PROXY: egressUrl,
    http_proxy: egressUrl,
    https_proxy: egressUrl,
    YARN_HTTP_PROXY: egressUrl,
    YARN_HTTPS_PROXY: egressUrl,
    NO_PROXY: here,
    no_proxy: here,
    NODE_USE_ENV_PROXY: '1',
    ...(certificates === undefined ? {} : { NODE_EXTRA_CA_CERTS: `${INSIDE}/steps/certificates.pem` }),
  };
  return assignments({ ...ours, ...env }, 'export ');
}

/** Quotes the values, so that a shell interprets nothing in them. Leaves invalid names out. */
const assignments = (values: Readonly<Record<string, string>>, before = '') =>
  Object.entries(values)
    .filter(([name]) => /^[A-Za-z_]\w*$/.test(name))
    .map(([name, value]) => `${before}${name}=${quoted(value)}\n`)
    .join('');

const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;
