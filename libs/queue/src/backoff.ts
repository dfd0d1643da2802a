/** Milliseconds to wait before reconnection number `attempt` (1, 2, 3 …): doubling from 50 ms to 2 s, with jitter against stampedes. */
export function reconnectDelay(attempt: number): number {
  const ceiling = Math.min(2_000, 50 * 2 ** Math.min(attempt - 1, 10));
  return Math.round(ceiling * (0.5 + Math.random() / 2));
}
