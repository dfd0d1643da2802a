import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GateName, Gates, NotificationName } from './gates.js';
import { gatesDocument } from './gates-doc.js';
import {
  GATE_NAMES,
  GATE_POLICIES,
  type GatePolicy,
  NOTIFICATION_NAMES,
  policyOf,
  type RemoteGateName,
} from './policy.js';

describe('policy table', () => {
  it('numbers the gates in loop order', () => {
    expect(GATE_NAMES.map((gate) => policyOf(gate).order)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('lets no veto gate fail open and gives every gate with a port a failure rule', () => {
    for (const gate of GATE_NAMES) {
      const policy = policyOf(gate);
      expect([gate, policy.remoteFailure === 'none']).toEqual([gate, policy.port === undefined]);
      if (policy.class === 'veto') expect([gate, policy.remoteFailure]).toEqual([gate, 'closed']);
      expect(policy.decisions).toEqual(expect.arrayContaining([...policy.ends, ...policy.inProcessOnly]));
    }
  });

  it('gives every port one gate', () => {
    const ports = GATE_NAMES.flatMap((gate) => policyOf(gate).port ?? []);
    expect(new Set(ports).size).toBe(ports.length);
    expect(ports).toHaveLength(6);
  });

  it('is what docs/gates.md says', () => {
    expect(readFileSync(join(__dirname, '../../../docs/gates.md'), 'utf8')).toBe(gatesDocument());
    for (const name of [...GATE_NAMES, ...NOTIFICATION_NAMES]) expect(gatesDocument()).toContain(`\`${name}\``);
  });

  it('does not compile without a row, with an unknown decision, or with a field the event lacks', () => {
    const { beforeToolCall: _, ...others } = GATE_POLICIES;
    // @ts-expect-error a gate without a policy
    const incomplete = others satisfies Record<GateName, GatePolicy>;
    const row = GATE_POLICIES.onLoop;
    // @ts-expect-error a policy for a gate that does not exist
    const surplus = { ...GATE_POLICIES, beforeLunch: row } satisfies Record<GateName, GatePolicy>;
    // @ts-expect-error no remote hook may stand on an in-process gate
    const remote: RemoteGateName = 'onLoop';
    // @ts-expect-error a decision of another gate
    const decision: Gates['beforeInput']['decision'] = { kind: 'proceed' };
    // @ts-expect-error no such notification
    const name: NotificationName = 'onLunch';
    expect([incomplete, surplus, remote, decision, name]).toHaveLength(5);
  });
});
