import { parseSettings, saysNotRequired } from './manifest-file.js';

describe('plugin.json', () => {
  it('fills in what is not said', () => {
    expect(parseSettings('{}')).toEqual({
      autoMtls: true,
      required: true,
      failurePolicy: {},
      budgetMs: {},
      env: [],
      config: {},
    });
  });

  it('keeps what is said', () => {
    const text = JSON.stringify({
      transport: 'grpc',
      command: ['node', 'main.js'],
      autoMtls: false,
      required: false,
      failurePolicy: { 'agent/request': 'closed' },
      timeoutMs: 500,
      budgetMs: { 'agent/input': 5_000 },
      env: ['AWS_REGION'],
      config: { deep: { er: [1] } },
    });
    const { transport: _, ...rest } = JSON.parse(text);
    expect(parseSettings(text)).toEqual(rest);
  });

  it.each([
    ['{"transport": "stdio"}', /"stdio" is not yet supported/],
    ['{"sha256": "00"}', /"sha256" is not yet supported/],
    ['{"mode": "shadow"}', /"mode" is not yet supported/],
    ['{"match": {}}', /"match" is not yet supported/],
    ['{"timeout": 5}', /unknown field "timeout"/],
    ['{"failurePolicy": {"agent/inptu": "closed"}}', /failurePolicy/],
    ['{"failurePolicy": {"agent/input": "ajar"}}', /failurePolicy\.agent\/input/],
    ['{"timeoutMs": 0}', /timeoutMs/],
    ['{"timeoutMs": 1.5}', /timeoutMs/],
    ['{"budgetMs": {"agent/input": 30001}}', /budgetMs\.agent\/input/],
    ['{"env": ["PLUGIN_CLIENT_CERT"]}', /reserved/],
    ['{"env": ["CODEDOCK_INTERNAL_TOKEN"]}', /reserved/],
    ['{"env": ["A=B"]}', /environment variable/],
    ['{"config": []}', /config/],
    ['{"command": []}', /command/],
    ['{"__proto__": {}}', /not valid JSON/],
    ['{', /not valid JSON/],
    ['[]', /one JSON object/],
  ])('refuses %s', (text, message) => {
    expect(() => parseSettings(text)).toThrow(message);
  });

  it('reads "required" even from a file that is refused', () => {
    expect(saysNotRequired('{"required": false, "typo": 1}')).toBe(true);
    expect(saysNotRequired('{"typo": 1}')).toBe(false);
    expect(saysNotRequired('{')).toBe(false);
  });
});
