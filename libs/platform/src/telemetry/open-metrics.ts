/** Media type of what `openMetrics` writes. */
export const OPEN_METRICS = 'application/openmetrics-text';
const VERSIONS = new Set([undefined, '1.0.0', '0.0.1']);

/** Whether who sends this Accept header would rather have OpenMetrics than the Prometheus text format. */
export function prefersOpenMetrics(accept = ''): boolean {
  let [openMetrics, plain] = [0, 0];
  for (const range of accept.toLowerCase().split(',')) {
    const [type, ...parameters] = range.split(';').map((part) => part.trim());
    const { q = '1', version } = Object.fromEntries(parameters.map((parameter) => parameter.split('=', 2)));
    if (type === OPEN_METRICS && VERSIONS.has(version)) openMetrics = Math.max(openMetrics, Number(q));
    if (type === 'text/plain') plain = Math.max(plain, Number(q));
  }
  return openMetrics > 0 && openMetrics >= plain;
}

/**
 * Metrics in the Prometheus text format as OpenMetrics 1.0, which can carry exemplars: `exemplars` has them by sample.
 * Samples keep their names and labels, so that series are the same whichever format is scraped.
 */
export function openMetrics(prometheus: string, exemplars: ReadonlyMap<string, string>): string {
  const counters = new Set([...prometheus.matchAll(/^# TYPE (\w+_total) counter$/gm)].map(([, name = '']) => name));
  const lines: string[] = [];
  for (const line of prometheus.split('\n')) {
    const [, kind, name = '', text] = /^# (HELP|TYPE|UNIT) (\w+) (.*)$/.exec(line) ?? [];
    if (kind === undefined) {
      // Neither empty lines nor remarks are known there.
      if (line !== '' && !line.startsWith('#')) lines.push(withExemplar(line, exemplars));
      continue;
    }
    // A unit has to be the end of the name there, and names stay as they are.
    if (kind === 'UNIT') continue;
    // There a counter is called without the _total of its sample.
    const family = counters.has(name) ? name.slice(0, -'_total'.length) : name;
    lines.push(`# ${kind} ${family} ${kind === 'HELP' ? text?.replaceAll('"', '\\"') : text}`);
  }
  return `${[...lines, '# EOF'].join('\n')}\n`;
}

function withExemplar(sample: string, exemplars: ReadonlyMap<string, string>): string {
  const exemplar = exemplars.get(sample.slice(0, sample.lastIndexOf(' ')));
  return exemplar === undefined ? sample : `${sample} ${exemplar}`;
}
