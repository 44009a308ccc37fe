/** Position of a step among all steps. The first one has the number 1. */
export interface Position {
  number: number;
  total: number;
}

/** Shows the progress of a start to a person: one line for each step with its time, and for each later event. */
export interface Progress {
  /** Runs `work`, which can show its progress by `show`. A terminal shows the position too while the step runs. */
  step<T>(title: string, work: (show: (progress: string) => void) => Promise<T>, position: Position): Promise<T>;
  say(text: string): void;
}

/** Returns `120.0 of 480.0 MB, about 0:09 left`, for bytes and elapsed milliseconds. */
export function progressOf(done: number, total: number, elapsedMs: number): string {
  const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
  const left = done > 0 ? Math.round((elapsedMs / 1000) * (total / done - 1)) : undefined;
  const time = left === undefined ? '' : `, about ${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')} left`;
  return `${megabytes(done)} of ${megabytes(total)} MB${time}`;
}

export function terminalProgress(out: Pick<NodeJS.WriteStream, 'isTTY' | 'write'>): Progress {
  const again = out.isTTY ? '\r\x1b[K' : '';
  return {
    step: async (title, work, { number, total }) => {
      const begin = performance.now();
      const running = `… ${number} of ${total}: ${title}`;
      if (out.isTTY) out.write(running);
      try {
        const result = await work((progress) => {
          if (out.isTTY) out.write(`${again}${running}: ${progress}`);
        });
        const seconds = ((performance.now() - begin) / 1000).toFixed(1);
        out.write(`${again}✓ ${title} (${seconds} s)\n`);
        return result;
      } catch (error) {
        out.write(`${again}✗ ${title}\n`);
        throw error;
      }
    },
    say: (text) => {
      out.write(`${text}\n`);
    },
  };
}
