import type { GateName } from './gates.js';
import { GATE_NAMES, NOTIFICATION_NAMES, NOTIFICATION_PLACES, policyOf } from './policy.js';

/** docs/gates.md, generated from the policy table. The same table gives the same text. */
export function gatesDocument(): string {
  return [
    '<!-- Generated from libs/hooks/src/policy.ts by `npm run gen`. Do not edit. -->',
    '# Gates and notifications',
    '',
    'A gate waits for a hook’s answer before the original operation happens; a notification tells and goes on.',
    'Without a hook the loop does what it would do without the gate. Fields in **bold** may be changed.',
    '',
    '## Gates, in loop order',
    '',
    '| # | gate | port | class | event | decisions | ends the chain | a remote hook fails |',
    '|---|---|---|---|---|---|---|---|',
    ...GATE_NAMES.map(row),
    '',
    'A decision marked † is for in-process hooks only. `could not ask` is never a refusal: other code, other metric, other',
    'audit outcome; it ends the chain wherever a remote hook may stand.',
    '',
    ...GATE_NAMES.flatMap(section),
    '## Notifications, in loop order',
    '',
    'Started in order, not awaited; what they return or throw is ignored.',
    '',
    '| notification | sent |',
    '|---|---|',
    ...NOTIFICATION_NAMES.map((name) => `| \`${name}\` | ${NOTIFICATION_PLACES[name]} |`),
    '',
  ].join('\n');
}

function row(gate: GateName): string {
  const policy = policyOf(gate);
  const cells = [
    String(policy.order),
    `\`${gate}\``,
    policy.port === undefined ? '– (in-process)' : `\`${policy.port}\``,
    policy.class,
    policy.fields.map(({ name, changes }) => (changes ? `**${name}**` : name)).join(', '),
    policy.decisions.map((kind) => (policy.inProcessOnly.includes(kind) ? `${kind}†` : kind)).join(' · ') || '–',
    policy.ends.join(' · ') || '–',
    policy.failureText,
  ];
  return `| ${cells.join(' | ')} |`;
}

function section(gate: GateName): string[] {
  const policy = policyOf(gate);
  return [`### ${policy.order} \`${gate}\``, '', `Where: ${policy.where}.`, '', policy.text, ''];
}
