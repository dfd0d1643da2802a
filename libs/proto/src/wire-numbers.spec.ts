import { BinaryReader } from '@bufbuild/protobuf/wire';
import { gate, packageDefinitionOf, plugin } from './index.js';

/** Field numbers in the order they appear in an encoded message. */
function numbersOf(encoded: Uint8Array): number[] {
  const reader = new BinaryReader(encoded);
  const numbers: number[] = [];
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    numbers.push(number);
    reader.skip(wireType, number);
  }
  return numbers;
}

const byte = Buffer.from('1');

describe('numbers that existing plugin binaries rely on', () => {
  it('keeps the envelope', () => {
    const envelope = plugin.Envelope.fromPartial({
      type: 'a',
      chainId: 'a',
      seen: ['a'],
      sessionId: 'a',
      runId: 'a',
      turnId: 'a',
      payload: byte,
      context: byte,
      reason: 'a',
      budgetMs: 1,
      attempt: 1,
      principal: byte,
      capability: byte,
      skipResult: byte,
      eventId: 'a',
      eventSeq: 1,
    });
    expect(numbersOf(plugin.Envelope.encode(envelope).finish())).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 23, 24, 25, 26, 27,
    ]);
  });

  it('keeps the manifest', () => {
    const manifest = plugin.Manifest.fromPartial({
      name: 'a',
      subscriptions: ['a'],
      version: 'a',
      sdkVersion: 'a',
      protocolMajor: 1,
      capabilities: ['a'],
      portFailurePolicy: { 'agent/request': 'closed' },
      maxPayloadBytes: 1,
      policyVersion: 'a',
    });
    expect(numbersOf(plugin.Manifest.encode(manifest).finish())).toEqual([1, 2, 20, 21, 22, 23, 24, 25, 26]);
  });

  it('keeps tools', () => {
    const method = plugin.Method.fromPartial({
      name: 'a',
      prompt: 'a',
      parametersSchema: byte,
      capabilities: ['a'],
      requiresApproval: true,
      effectClass: 'pure',
      timeoutMs: 1,
    });
    expect(numbersOf(plugin.Method.encode(method).finish())).toEqual([1, 2, 3, 4, 5, 20, 21]);
    const input = plugin.MethodInput.fromPartial({
      sessionId: 'a',
      runId: 'a',
      turnId: 'a',
      callId: 'a',
      name: 'a',
      arguments: byte,
      idempotencyKey: 'a',
      attempt: 1,
      principal: byte,
      capability: byte,
    });
    expect(numbersOf(plugin.MethodInput.encode(input).finish())).toEqual([1, 2, 3, 4, 5, 6, 20, 21, 22, 23]);
    const result = plugin.MethodResult.fromPartial({ success: true, output: byte, error: 'a' });
    expect(numbersOf(plugin.MethodResult.encode(result).finish())).toEqual([1, 2, 3]);
  });

  it('keeps the method paths', () => {
    expect(Object.values(plugin.PluginService).map((method) => method.path)).toEqual([
      '/codedock.plugin.v1.Plugin/Bootstrap',
      '/codedock.plugin.v1.Plugin/OnEvent',
      '/codedock.plugin.v1.Plugin/ExecuteMethod',
    ]);
  });
});

describe('package definitions made from generated services', () => {
  it('names services and methods as their .proto files do', () => {
    const definition = packageDefinitionOf(gate.GateServiceService);
    expect(Object.keys(definition)).toEqual(['codedock.gate.v1.GateService']);
    expect(definition['codedock.gate.v1.GateService']).toMatchObject({
      Dispatch: { path: '/codedock.gate.v1.GateService/Dispatch', originalName: 'dispatch' },
    });
  });
});
