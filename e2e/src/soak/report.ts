/**
 * Reports the soak for people: the latencies of each kind of request, and the effect of each kill. The report asserts
 * nothing.
 */
import type { Outage, Outages } from './outages.js';
import { KINDS, type Request, type Requests } from './requests.js';

export function report(requests: Requests, outages: Outages): string[] {
  return [...latencies(requests, outages), ...kills(requests, outages)];
}

function latencies(requests: Requests, outages: Outages): string[] {
  const rows = KINDS.map((kind) => {
    const all = requests.all.filter((request) => request.kind === kind && request.failure === undefined);
    const [calm, during] = [
      all.filter((request) => !outages.during(request)),
      all.filter((request) => outages.during(request)),
    ];
    return [kind, String(all.length), spread(calm), spread(during)];
  });
  return table([['kind', 'requests', 'p50 / p99 ms, all available', 'p50 / p99 ms, in an outage'], ...rows]);
}

function kills(requests: Requests, outages: Outages): string[] {
  const titles = [...new Set(outages.all.map(({ of }) => of))];
  const rows = titles.map((title) => {
    const its = outages.all.filter(({ of }) => of === title);
    const seconds = its.map(({ from, to }) => (to - from) / 1000).sort((a, b) => a - b);
    const back = `${quantile(seconds, 0.5).toFixed(1)} / ${(seconds.at(-1) ?? 0).toFixed(1)}`;
    const answered = requests.all.filter(({ failure, begun, ended }) => {
      return failure === undefined && its.some(({ from, to }) => begun < to && ended > from);
    });
    return [title, String(its.length), back, String(answered.length), failures(requests, its)];
  });
  return table([['killed', 'times', 'back after s, median / most', 'succeeded in outage', 'failed'], ...rows]);
}

/** Counts the failures of each kind and reason, with the time of the last one after the kill. */
function failures(requests: Requests, outages: Outage[]): string {
  const seen = new Map<string, { count: number; last: number }>();
  for (const { kind, failure, begun, ended } of requests.all) {
    const outage = outages.find(({ from, to }) => begun < to && ended > from);
    if (failure === undefined || !outage) continue;
    const name = `${kind} ${failure}`;
    const { count, last } = seen.get(name) ?? { count: 0, last: 0 };
    seen.set(name, { count: count + 1, last: Math.max(last, ended - outage.from) });
  }
  const words = [...seen].map(([name, { count, last }]) => `${count} ${name} (until ${(last / 1000).toFixed(1)} s)`);
  return words.join(', ') || 'none';
}

function spread(requests: Request[]): string {
  const times = requests.map(({ begun, ended }) => ended - begun).sort((a, b) => a - b);
  return times.length === 0 ? '-' : `${quantile(times, 0.5).toFixed(1)} / ${quantile(times, 0.99).toFixed(1)}`;
}

const quantile = (sorted: number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;

function table(rows: string[][]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
