/**
 * Follows the output of a build's pod, container by container, and writes it to the store of sites, without secrets.
 * In: streams of the Kubernetes API. Out: sections of a log, and the marks in it, which are lines that Slipway's own
 * program prints. It may start again at any time, also in another operator: the same output is written to the same
 * place.
 */
import { StringDecoder } from 'node:string_decoder';
import { Redactor } from '@slipway/kaniko-build-wrapper';
import type { BuildContainer } from './build-job.js';
import type { LogMarks } from './job-state.js';
import { type LogDestination, LogWriter, type Section } from './log-writer.js';

export interface LogPlace extends LogDestination {
  /** Values that are redacted. */
  secrets: readonly string[];
  /** The prefix of a mark. */
  mark: string;
  now(): Date;
  onMark(): void;
}

/** Maximum characters of a mark. A longer line is output. */
const LONGEST_MARK = 400;

/**
 * Maximum number of changes of section in one output. Each needs a request to the store, and a build can print any
 * number of lines that look like marks.
 */
const MOST_CHANGES = 3;
/** Maximum number of calls of `onMark`, each of which starts a reconcile. The end of the container starts one too. */
const MOST_REPORTED = 10;

export class LogFollower {
  readonly marks: LogMarks = {};
  readonly writer: LogWriter;
  readonly #place: LogPlace;

  constructor(place: LogPlace) {
    let reported = 0;
    const onMark = () => {
      reported += 1;
      if (reported <= MOST_REPORTED) place.onMark();
    };
    this.#place = { ...place, onMark };
    this.writer = new LogWriter(place);
  }

  /** Writes the whole output of a container. After an error it may be called again, with the output from its start. */
  follow(container: BuildContainer, output: AsyncIterable<Buffer>): Promise<void> {
    const reading = new Reading(this, container, this.#place);
    return this.writer.undoingFailure(async () => {
      await reading.prepare();
      for await (const piece of output) await reading.push(piece);
      await reading.end();
    });
  }

  /** Processes a mark. Returns the section of the output after it. */
  mark(line: string, section: Section): Section {
    const { marks } = this;
    const [word = '', ...rest] = line.split(' ');
    if (word === 'Installing') marks.installingAt ??= this.#place.now();
    else if (word === 'Building') marks.buildingAt ??= this.#place.now();
    else if (word === 'exit') marks.exitCode = exitCodeOf(rest[0]);
    else if (word === 'refused') marks.refusal = rest.join(' ').slice(0, 300);
    this.#place.onMark();
    return word === 'Installing' || word === 'Building' ? word : section;
  }
}

/** Returns 1 for a text that is not an exit code: the tenant's command can print a line that looks like a mark. */
const exitCodeOf = (text = '') => (/^\d{1,3}$/.test(text) && Number(text)) || 1;

/** The output of one container. Marks are removed and secrets redacted, also if they are split over several pieces. */
class Reading {
  readonly #decoder = new StringDecoder('utf8');
  readonly #redactor: Redactor;
  #section: Section;
  #changes = 0;
  /** The start of a line that may become a mark. */
  #pending = '';
  #isAtLineStart = true;

  constructor(
    private readonly follower: LogFollower,
    container: BuildContainer,
    private readonly place: LogPlace,
  ) {
    this.#redactor = new Redactor(place.secrets);
    this.#section = container === 'clone' ? 'Cloning' : 'Building';
  }

  prepare(): Promise<void> {
    return this.#redactor.prepare();
  }

  push(piece: Buffer): Promise<void> {
    return this.#take(this.#decoder.write(piece));
  }

  async end(): Promise<void> {
    await this.#take(this.#decoder.end());
    await this.#show(this.#redacted(this.#pending) + this.#redactor.end());
    this.#pending = '';
  }

  async #take(text: string): Promise<void> {
    let rest = this.#pending + text;
    this.#pending = '';
    let shown = '';
    while (rest !== '') {
      const end = rest.indexOf('\n');
      const line = end === -1 ? rest : rest.slice(0, end + 1);
      if (this.#isAtLineStart && this.#mayBeOurs(line)) {
        if (end === -1) {
          this.#pending = line;
          break;
        }
        await this.#show(this.#redacted(shown) + this.#redactor.end());
        shown = '';
        this.#changeTo(this.follower.mark(line.slice(this.place.mark.length).trimEnd(), this.#section));
      } else {
        shown += line;
        this.#isAtLineStart = end !== -1;
      }
      rest = rest.slice(line.length);
    }
    await this.#show(this.#redacted(shown));
  }

  #changeTo(section: Section): void {
    if (section === this.#section || this.#changes >= MOST_CHANGES) return;
    this.#changes += 1;
    this.#section = section;
  }

  #redacted(text: string): string {
    return this.follower.writer.isFull ? '' : this.#redactor.push(text);
  }

  /** True for a mark, and for the start of one. */
  #mayBeOurs(line: string): boolean {
    const { mark } = this.place;
    if (line.length < mark.length) return mark.startsWith(line);
    return line.startsWith(mark) && line.length <= mark.length + LONGEST_MARK;
  }

  #show(text: string): Promise<void> {
    return this.follower.writer.write(this.#section, text);
  }
}
