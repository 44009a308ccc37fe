/** Shows the progress of a start to a person: one line for each step with its time, and for each later event. */
export interface Progress {
  step<T>(title: string, work: () => Promise<T>): Promise<T>;
  say(text: string): void;
}

export function terminalProgress(out: NodeJS.WriteStream): Progress {
  return {
    step: async (title, work) => {
      const begin = performance.now();
      if (out.isTTY) out.write(`… ${title}`);
      try {
        const result = await work();
        const seconds = ((performance.now() - begin) / 1000).toFixed(1);
        out.write(`${out.isTTY ? '\r' : ''}✓ ${title} (${seconds} s)\n`);
        return result;
      } catch (error) {
        out.write(`${out.isTTY ? '\r' : ''}✗ ${title}\n`);
        throw error;
      }
    },
    say: (text) => {
      out.write(`${text}\n`);
    },
  };
}
