import { type ApprovalDecision, sealDigest, type ToolDefinition } from '@codedock/domain';
import type { ApprovalCallView, ApprovalView } from '@codedock/store';
import { ArgumentCheck } from './argument-check.js';
import { sealedDecisions } from './sealed-decisions.js';

const digest = (text: string) => `sealed ${text}`;
const transfer: ToolDefinition = {
  name: 'transfer',
  description: 'moves money',
  parameters: { type: 'object', properties: { amount: { type: 'number', maximum: 10 } }, required: ['amount'] },
  requiresApproval: true,
  effect: 'effectful',
  timeoutMs: 1_000,
  schemaDigest: 'schema of transfer',
};
const sealOf = (amount: number, schemaDigest = transfer.schemaDigest) =>
  sealDigest(digest, { tool: 'transfer', schemaDigest, arguments: { amount } });

const approval = (call: Partial<ApprovalCallView> = {}): ApprovalView => ({
  id: 'approval',
  sessionId: 'session',
  runId: 'run',
  turnId: 'turn',
  status: 'open',
  createdAt: '',
  expiresAt: '',
  calls: [
    {
      callId: 'call',
      tool: 'transfer',
      arguments: { amount: 1 },
      digest: sealOf(1),
      gateVersion: 'v',
      reasons: [],
      ...call,
    },
  ],
});
const judgedBy = (tools: readonly ToolDefinition[]) => ({
  lookup: (name: string) => tools.find((tool) => tool.name === name),
  arguments: new ArgumentCheck(),
  digest,
});
const sealed = (decision: Partial<ApprovalDecision>, call: Partial<ApprovalCallView> = {}, tools = [transfer]) =>
  sealedDecisions(
    approval(call),
    [{ callId: 'call', decision: 'approve', ...decision } as ApprovalDecision],
    judgedBy(tools),
  )[0];

describe('decisions before they are stored', () => {
  it('pass as they are when they say yes or no to one call, also without the tool', () => {
    expect(sealed({}, {}, [])).toEqual({ callId: 'call', decision: 'approve' });
    expect(sealed({ decision: 'deny', reason: 'no' }, {}, [])).toEqual({
      callId: 'call',
      decision: 'deny',
      reason: 'no',
    });
    expect(sealed({ callId: 'another' }, {}, [])).toEqual({ callId: 'another', decision: 'approve' });
  });

  it('seal edited arguments anew', () => {
    expect(sealed({ arguments: { amount: 2 } })).toMatchObject({ arguments: { amount: 2 }, digest: sealOf(2) });
  });

  it('take arguments that are those asked for as no edit', () => {
    expect(sealed({ arguments: { amount: 1 } })).toEqual({ callId: 'call', decision: 'approve' });
  });

  it.each([{}, { amount: 11 }, { amount: 'all' }, 'text', null])('refuse arguments %j by their path', (edited) => {
    expect(() => sealed({ arguments: edited })).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        errors: [expect.objectContaining({ path: '/decisions/0/arguments' })],
      }),
    );
  });

  it('bind a wider scope to the schema that was seen', () => {
    expect(sealed({ scope: 'session' })).toEqual({
      callId: 'call',
      decision: 'approve',
      scope: 'session',
      schemaDigest: transfer.schemaDigest,
    });
    expect(sealed({ scope: 'once' })).toEqual({ callId: 'call', decision: 'approve', scope: 'once' });
  });

  it.each([
    ['the tool is another by now', { scope: 'run' }, [{ ...transfer, schemaDigest: 'new' }]],
    ['the tool is gone', { scope: 'run' }, []],
    ['the tool is gone, and arguments are edited', { arguments: { amount: 2 } }, []],
  ] as const)('refuse what cannot be judged: %s', (_, decision, tools) => {
    expect(() => sealed(decision, {}, [...tools])).toThrow(expect.objectContaining({ code: 'conflict' }));
  });

  it('pass on for a call that is decided already, whatever has become of the tool', () => {
    const again = { callId: 'call', decision: 'approve', scope: 'run', arguments: { amount: 2 } } as const;
    expect(sealed(again, { decision: 'approve' }, [])).toEqual(again);
  });
});
