import { openMetrics, prefersOpenMetrics } from './open-metrics.js';

test.each<[string | undefined, boolean]>([
  [undefined, false],
  ['*/*', false],
  ['text/plain', false],
  ['application/openmetrics-text', true],
  // Prometheus 2 and 3, and 3 with protobuf.
  [
    'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1',
    true,
  ],
  [
    'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,*/*;q=0.2',
    true,
  ],
  ['application/openmetrics-text; version=2.0.0', false],
  ['text/plain, application/openmetrics-text; q=0.5', false],
  ['application/openmetrics-text;q=0', false],
  ['application/openmetrics-text;q=no', false],
])('who accepts %s gets OpenMetrics: %s', (accept, expected) => {
  expect(prefersOpenMetrics(accept)).toBe(expected);
});

test('the text format becomes OpenMetrics, with the same samples', () => {
  const prometheus = `# HELP target_info Target metadata
# TYPE target_info gauge
target_info{service_name="a b"} 1
# HELP runs_total Runs, "all" of them.
# UNIT runs_total {run}
# TYPE runs_total counter
runs_total{status="completed # {x} 1"} 7
# HELP wait Time.
# UNIT wait s
# TYPE wait histogram
wait_count 2
wait_sum 0.3
wait_bucket{le="0.1"} 1
wait_bucket{le="+Inf"} 2
`;
  const exemplars = new Map([['wait_bucket{le="0.1"}', '# {trace_id="aa",span_id="bb"} 0.05 1700000000.25']]);
  expect(openMetrics(prometheus, exemplars)).toBe(`# HELP target_info Target metadata
# TYPE target_info gauge
target_info{service_name="a b"} 1
# HELP runs Runs, \\"all\\" of them.
# TYPE runs counter
runs_total{status="completed # {x} 1"} 7
# HELP wait Time.
# TYPE wait histogram
wait_count 2
wait_sum 0.3
wait_bucket{le="0.1"} 1 # {trace_id="aa",span_id="bb"} 0.05 1700000000.25
wait_bucket{le="+Inf"} 2
# EOF
`);
});

test('without any metric there is only the end', () => {
  expect(openMetrics('# no registered metrics', new Map())).toBe('# EOF\n');
});
