/**
 * Options of Node for the data plane. V8 collects the old generation when the heap has grown by a factor, which is less
 * than 2 if the heap is at most 1 GB. By default, it counts bytes outside of the heap too. So the bytes of responses
 * that are passed on made it collect about every 60 ms, though the next collection of the young generation frees them.
 * Here they count for a limit of their own with the heap, and the factor is 3.
 */
export const NODE_FLAGS: readonly string[] = [
  '--max-old-space-size=1024',
  '--external-memory-accounted-in-global-limit',
  '--heap-growing-percent=200',
];
