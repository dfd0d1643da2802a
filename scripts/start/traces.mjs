import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startTraceReceiver } from '@codedock/trace-receiver';

/** Receives the traces of the services in this process; the `codedock` command finds it by the file `traces-url`. */
export async function startTraces(folder) {
  const file = join(folder, 'traces-url');
  const receiver = await startTraceReceiver();
  await writeFile(file, `${receiver.url}\n`);
  return {
    /** What sends every span here, soon. */
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '500',
    },
    async stop() {
      await rm(file, { force: true });
      await receiver.close();
    },
  };
}
