import { listVariables, type Variable } from './variables.js';

/** docs/configuration.md, generated. */
export function renderConfigurationDocument(): string {
  const rows = listVariables().map(
    ([, variable]) =>
      `| \`${variable.name}\`${variable.aliases.map((alias) => ` (or \`${alias}\`)`).join('')} | ${variable.kind} | ` +
      `${shownDefault(variable)} | ${variable.apps.join(', ')} | ${variable.doc}${
        variable.secret ? ` Secret; also as \`${variable.name}_FILE\`.` : ''
      } |`,
  );
  return `<!-- Generated from libs/platform/src/config/variables.ts by "npm run gen". Do not edit. -->
# Configuration

Every program reads environment variables once, at its start, and refuses to start with a message that names the
variable and the remedy when one is wrong, when two contradict each other, or when a \`CODEDOCK_*\` name is unknown.
An empty value counts as not set. Durations are written \`500ms\`, \`2s\`, \`5m\`, \`24h\`, \`7d\`; sizes \`64KiB\`, \`4MiB\`.
A secret can be given by value or as the path of a file in \`<name>_FILE\`, not both.

| name | value | default | read by | meaning |
|---|---|---|---|---|
${rows.join('\n')}
| \`OTEL_*\` | | | gateway, runner, plugin-host | As in the OpenTelemetry specification. Traces are exported when \`OTEL_EXPORTER_OTLP_ENDPOINT\` or \`OTEL_TRACES_EXPORTER\` is set; metrics are always at \`/metrics\` and are also pushed when the endpoint or \`OTEL_METRICS_EXPORTER\` is set. |
`;
}

/** .env.example, generated: every variable, commented out with its default. */
export function renderEnvironmentExample(): string {
  const blocks = listVariables().map(([, variable]) => {
    const value = variable.fallback ?? '';
    const names = variable.aliases.length > 0 ? ` Also: ${variable.aliases.join(', ')}.` : '';
    return `# ${variable.doc}${names} (${variable.apps.join(', ')})\n#${variable.name}=${value}\n`;
  });
  return `# Generated from libs/platform/src/config/variables.ts by "npm run gen". Copy to .env and uncomment what you change.\n\n${blocks.join('\n')}`;
}

function shownDefault(variable: Variable): string {
  if (variable.presence === 'required') {
    return '**required**';
  }
  if (variable.fallbackFrom !== undefined) {
    return `value of \`${variable.fallbackFrom}\``;
  }
  return variable.fallback === undefined ? '' : `\`${variable.fallback}\``;
}
