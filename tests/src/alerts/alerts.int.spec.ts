import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  eventually,
  expectNoLeftovers,
  repositoryRoot,
  type TemporaryFolder,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { startTraceReceiver, type TraceReceiver } from '@codedock/trace-receiver';
import { fakeScript, type RunView, START_MS, type System, startSystem, waitForPlugins } from '../system.js';
import { exportTo } from '../traces/collected.js';
import { type Prometheus, startPrometheus } from './prometheus.js';
import { dashboardQueries, metricsOf, shippedRules } from './shipped.js';

const LONG = { timeoutMs: 90_000 };
const HANGING = fakeScript({ hang: true });
const rules = shippedRules();
const alerts = rules.groups.flatMap((group) => group.rules);

let folder: TemporaryFolder;
let receiver: TraceReceiver;
let system: System;

beforeAll(async () => {
  folder = await temporaryFolder('codedock-alerts-');
  receiver = await startTraceReceiver();
  system = await startSystem({
    env: {
      ...exportTo(receiver),
      CODEDOCK_LEASE_TTL: '6s',
      CODEDOCK_LEASE_HEARTBEAT: '1s',
      OTEL_EXPORTER_OTLP_TIMEOUT: '3000',
    },
    plugins: async (root) => {
      const config = { folder: folder.path };
      await writePlugin(root, 'guard', { source: GUARD, pluginJson: { restart: { policy: 'never' }, config } });
      const restart = { policy: 'always', backoffMs: 100, maxBackoffMs: 100 };
      await writePlugin(root, 'frail', { source: FRAIL, pluginJson: { restart, config } });
      await writePlugin(root, 'strict', { source: STRICT, pluginJson: { delivery: 'durable', config } });
    },
  });
  await waitForPlugins(system);
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await receiver?.close();
  await folder?.remove();
  await expectNoLeftovers();
});

/** Makes a plugin end, soon after each of its starts. */
const die = (plugin: string) => writeFileSync(path.join(folder.path, plugin), '');

const MORTAL = `
  import { existsSync } from 'node:fs';
  import { join } from 'node:path';
  import { config, definePlugin, serve } from '@codedock/plugin-sdk';
  const { folder } = config() as { folder: string };
  const name = process.env['CODEDOCK_PLUGIN_NAME'] ?? '';
  setInterval(() => { if (existsSync(join(folder, name))) process.exit(3); }, 50);`;

/** A policy on every input and tool call; slow at inputs when it is told so. */
const GUARD = `${MORTAL}
  serve(definePlugin({
    name,
    version: '1.0.0',
    onAgentInput: async (input) => {
      if (input.principal.metadata['slow'] === true) await new Promise((resolve) => setTimeout(resolve, 1_500));
      return undefined;
    },
    onToolPreExecute: () => undefined,
  }));`;

const FRAIL = `${MORTAL}
  serve(definePlugin({ name, version: '1.0.0', onLedgerNotify: { 'run.completed': () => undefined } }));`;

/** Refuses events once a file says so. */
const STRICT = `
  import { existsSync } from 'node:fs';
  import { join } from 'node:path';
  import { config, definePlugin, serve } from '@codedock/plugin-sdk';
  const { folder } = config() as { folder: string };
  serve(definePlugin({ name: 'strict', version: '1.0.0', onLedgerNotify: { 'run.completed': () => {
    if (existsSync(join(folder, 'refuse'))) throw new Error('not now');
  } } }));`;

const started = async (content: string, more: Record<string, unknown> = {}): Promise<RunView> =>
  system.startRun(await system.createSession(), { content, ...more });
const running = (run: RunView) => system.waitForRun(run.id, ({ status }) => status === 'running');
const CALL = fakeScript({ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'done' });

async function scraped(): Promise<Set<string>> {
  const texts = await Promise.all(
    system.metricsAt.map(async (at) =>
      (await fetch(`http://${at}/metrics`, { headers: { connection: 'close' } })).text(),
    ),
  );
  return new Set(texts.flatMap((text) => text.split('\n').flatMap((line) => /^\w+/.exec(line)?.[0] ?? [])));
}

describe('the rules', () => {
  it('have a runbook each, and the runbooks an alert', () => {
    const file = path.join(repositoryRoot(), 'docs/operating/runbooks.md');
    const sections = [...readFileSync(file, 'utf8').matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(alerts.map(({ alert }) => alert));
    for (const { alert, annotations } of alerts) {
      expect(annotations.runbook_url).toBe(`docs/operating/runbooks.md#${alert.toLowerCase()}`);
    }
  });

  it('and the dashboard ask for metrics that a running system has', async () => {
    const good = await started(CALL);
    expect((await system.waitForEnd(good.id)).status).toBe('completed');
    const bad = await started(fakeScript({ fail: 'provider_rejected' }));
    expect((await system.waitForEnd(bad.id)).status).toBe('failed');
    const asked = [...alerts.map(({ alert, expr }) => ({ panel: alert, expr })), ...dashboardQueries()];
    // Failures of gates are counted by code once there is one.
    const later = new Set(['codedock_gate_failures_total']);
    await eventually(async () => {
      const known = await scraped();
      const missing = asked.flatMap(({ panel, expr }) =>
        metricsOf(expr)
          .filter((name) => !known.has(name) && !later.has(name))
          .map((name) => `${panel}: ${name}`),
      );
      expect(missing).toEqual([]);
    }, LONG);
  }, 120_000);
});

const missing =
  spawnSync('prometheus', ['--version']).status === 0
    ? undefined
    : 'no prometheus on PATH (apt-get install prometheus)';
if (missing !== undefined) {
  if (process.env['REQUIRE_PROMETHEUS']) throw new Error(missing);
  console.warn(`skipped, the alerts on staged faults: ${missing}`);
}

(missing === undefined ? describe : describe.skip)('each alert fires on its fault, and none without one', () => {
  let prometheus: Prometheus;

  beforeAll(async () => {
    // A fault lasts for as long as a test has: where an alert waits for a minute, it waits for a second here.
    const impatient = { groups: rules.groups.map((group) => ({ ...group, rules: group.rules.map(inSeconds) })) };
    prometheus = await startPrometheus(folder, { targets: system.metricsAt, rules: impatient });
  }, 90_000);
  afterAll(() => prometheus?.process.stop());

  const seen = new Set<string>();
  const expected = async (...names: readonly string[]) => {
    await eventually(async () => expect(await prometheus.firing()).toEqual(expect.arrayContaining([...names])), LONG);
    for (const name of names) seen.add(name);
  };

  it('is quiet over a system that works, and can draw every panel', async () => {
    await eventually(async () => expect(await prometheus.query('up == 1')).toHaveLength(3), LONG);
    const run = await started(CALL);
    await system.waitForEnd(run.id);
    await eventually(async () => {
      const [ended] = await prometheus.query('sum(codedock_runs_ended_total{status="completed"})');
      expect(Number(ended?.value[1])).toBeGreaterThanOrEqual(2);
    }, LONG);
    expect(await prometheus.firing()).toEqual([]);
    for (const { expr } of dashboardQueries()) await prometheus.query(expr);
  }, 120_000);

  it.each([
    'codedock_gate_duration_bucket{gate="beforeInput"}',
    'codedock_gate_duration_bucket{gate="beforeToolCall"}',
    'codedock_plugin_duration_bucket',
    'codedock_model_duration_bucket',
    'codedock_tool_duration_bucket',
    'codedock_queue_wait_bucket',
    'codedock_run_duration_bucket',
    'codedock_event_append_duration_bucket',
  ])('leads from a bucket to a trace: %s', async (series) => {
    await eventually(async () => {
      const [exemplar] = await prometheus.exemplars(series);
      const { trace_id: traceId, span_id: spanId } = exemplar?.labels ?? {};
      const spans = receiver.spans().filter((span) => span.traceId === traceId && span.spanId === spanId);
      expect({ series, exemplar, spans }).toMatchObject({ exemplar: {}, spans: [{ traceId }] });
    }, LONG);
  });

  it('CodeDockGateSlow: a policy takes longer than a second', async () => {
    await system.waitForEnd((await started('hello', { metadata: { slow: true } })).id);
    await expected('CodeDockGateSlow');
  }, 120_000);

  it('CodeDockRunsFailing: six runs fail', async () => {
    for (let n = 0; n < 6; n += 1) {
      await system.waitForEnd((await started(fakeScript({ fail: 'provider_rejected' }))).id);
    }
    await expected('CodeDockRunsFailing');
  }, 120_000);

  it('CodeDockDeliveryBehind: a plugin refuses an event for long', async () => {
    writeFileSync(path.join(folder.path, 'refuse'), '');
    const run = await started('hello');
    await system.waitForEnd(run.id);
    await system.db.query("UPDATE events SET occurred_at = occurred_at - interval '10 minutes' WHERE run_id = $1", [
      run.id,
    ]);
    await expected('CodeDockDeliveryBehind');
  }, 120_000);

  it('CodeDockSpansDropped: the collector is gone', async () => {
    await receiver.close();
    await system.waitForEnd((await started('hello')).id);
    await expected('CodeDockSpansDropped');
  }, 120_000);

  it('CodeDockLeasesLost: a run is taken from its runner', async () => {
    const run = await running(await started(HANGING));
    await system.db.query('UPDATE runs SET lease_token = lease_token + 1 WHERE id = $1', [run.id]);
    await expected('CodeDockLeasesLost');
    await system.api('POST', `/v1/runs/${run.id}/cancel`, {});
  }, 120_000);

  it('CodeDockPluginRestarting: a plugin dies again and again', async () => {
    die('frail');
    await expected('CodeDockPluginRestarting', 'CodeDockPluginDown');
  }, 120_000);

  it('CodeDockGateFailClosed: a policy is down', async () => {
    die('guard');
    await eventually(async () => {
      const refused = await system.api('POST', `/v1/sessions/${await system.createSession()}/runs`, { content: 'hi' });
      expect(refused.status).toBe(503);
    }, LONG);
    await expected('CodeDockGateFailClosed', 'CodeDockPluginDown');
    await system.api('POST', '/v1/plugins/guard/disable', {});
    await eventually(async () => {
      const { status } = await system.api('POST', `/v1/sessions/${await system.createSession()}/runs`, {
        content: 'hi',
      });
      expect(status).toBe(201);
    }, LONG);
  }, 120_000);

  it('CodeDockLeasesExpired and CodeDockQueueOld: the only runner is killed', async () => {
    await running(await started(HANGING));
    await system.runners[0]?.kill();
    const waiting = await started('hello');
    await system.db.query("UPDATE runs SET queued_at = queued_at - interval '10 minutes' WHERE id = $1", [waiting.id]);
    await expected('CodeDockLeasesExpired', 'CodeDockQueueOld');
  }, 120_000);

  it('CodeDockPluginHostUnreachable: the only plugin-host is killed', async () => {
    await system.pluginHosts[0]?.kill();
    await expected('CodeDockPluginHostUnreachable');
  }, 120_000);

  it('CodeDockGatewayAbsent: the gateway is gone', async () => {
    await system.gateways[0]?.kill();
    await expected('CodeDockGatewayAbsent');
  }, 120_000);

  it('that is all there are', () => {
    expect([...seen].sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });
});

function inSeconds<R extends { readonly for?: string }>(rule: R): R {
  return rule.for === undefined ? rule : { ...rule, for: rule.for.replace(/m$/, 's') };
}
