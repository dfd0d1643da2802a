import { eventPattern, isPort, ports } from './ports.js';

describe('port names', () => {
  it('knows exactly its ports', () => {
    expect(ports.every(isPort)).toBe(true);
    expect(isPort('run.started')).toBe(false);
    expect(isPort('agent/Input')).toBe(false);
  });

  it('tells ledger events from ports', () => {
    expect(eventPattern.test('tool.execution_started')).toBe(true);
    expect(ports.some((port) => eventPattern.test(port))).toBe(false);
  });
});
