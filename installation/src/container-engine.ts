/**
 * The container engine of one machine, as `npm start` found it by trying. In: a variable. Out: the form that works, or
 * the reason why this machine runs no containers. All programs of an installation read the same.
 */
export const CONTAINER_ENGINE_SETTING = 'SLIPWAY_CONTAINER_ENGINE';

/** The programs and the storage of podman. */
export interface EngineForm {
  runtime: 'runc' | 'crun';
  driver: 'overlay' | 'vfs';
}

/** `lacking`: the reason, for people. */
export type ContainerEngine = { form: EngineForm } | { lacking: string };

const FORM = /^podman (runc|crun) (overlay|vfs)$/;
const NONE = 'none: ';
const UNSET: ContainerEngine = { lacking: 'it was started without a container engine' };

export const containerEngineSetting = (engine: ContainerEngine): string =>
  'form' in engine ? `podman ${engine.form.runtime} ${engine.form.driver}` : `${NONE}${engine.lacking}`;

export function readContainerEngine(value: string | undefined): ContainerEngine {
  if (!value) return UNSET;
  const [, runtime, driver] = FORM.exec(value) ?? [];
  if (runtime && driver) return { form: { runtime, driver } as EngineForm };
  if (value.startsWith(NONE)) return { lacking: value.slice(NONE.length) };
  throw new Error(`${CONTAINER_ENGINE_SETTING} is ${JSON.stringify(value)}: it is like "podman runc overlay"`);
}
