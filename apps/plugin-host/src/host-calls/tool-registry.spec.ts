import { plugin } from '@codedock/proto';
import { ToolRegistry } from './tool-registry.js';

const method = (more: Partial<plugin.Method>) =>
  plugin.Method.fromPartial({ name: 'lookup', parametersSchema: Buffer.from('{"type":"object"}'), ...more });

describe('registering tools', () => {
  it('fills in what the plugin leaves out', () => {
    const registry = new ToolRegistry(() => undefined);
    registry.register(method({ parametersSchema: Buffer.alloc(0) }));
    expect(registry.list()).toMatchObject([
      {
        name: 'lookup',
        effectClass: 'effectful',
        timeoutMs: 60_000,
        parametersSchema: Buffer.from('{"type":"object"}'),
      },
    ]);
  });

  it('lets a plugin replace its own tool', () => {
    const registry = new ToolRegistry(() => undefined);
    registry.register(method({ prompt: 'old' }));
    registry.register(method({ prompt: 'new' }));
    expect(registry.list()).toMatchObject([{ prompt: 'new' }]);
  });

  it.each([
    [{ name: 'ping' }, /built-in/],
    [{ name: 'memory_search' }, /built-in/],
    [{ name: 'taken' }, /held by plugin earlier/],
    [{ name: '' }, /no tool name/],
    [{ name: 'a b' }, /no tool name/],
    [{ name: 'a'.repeat(65) }, /no tool name/],
    [{ parametersSchema: Buffer.from('{"type": 5}') }, /no valid JSON Schema/],
    [{ parametersSchema: Buffer.from('{"$ref": "https://example.com/x"}') }, /no valid JSON Schema/],
    [{ parametersSchema: Buffer.from('[]') }, /no valid JSON Schema/],
    [{ parametersSchema: Buffer.from('{') }, /no valid JSON Schema/],
    [{ effectClass: 'harmless' }, /effect_class/],
    [{ timeoutMs: 3_600_001 }, /timeout_ms/],
  ])('refuses %j', (more, message) => {
    const registry = new ToolRegistry((name) => (name === 'taken' ? 'earlier' : undefined));
    expect(() => registry.register(method(more))).toThrow(message);
    expect(registry.list()).toEqual([]);
  });
});
