import { Ajv2020 } from 'ajv/dist/2020.js';
import { parseSettings, saysNotRequired } from './manifest-file.js';
import { pluginJsonSchema } from './plugin-json-schema.js';

describe('plugin.json', () => {
  it('fills in what is not said', () => {
    expect(parseSettings('{}')).toEqual({
      transport: 'grpc',
      autoMtls: true,
      delivery: 'best-effort',
      required: true,
      mode: 'enforce',
      matchJson: '',
      failurePolicy: {},
      budgetMs: {},
      reinvoke: 'never',
      maxInflight: 8,
      maxToolCalls: 4,
      restart: { policy: 'on-failure', backoffMs: 500, maxBackoffMs: 30_000 },
      limits: { logBytesPerSecond: 65_536 },
      env: [],
      config: {},
    });
  });

  it('keeps what is said', () => {
    const text = JSON.stringify({
      transport: 'stdio',
      command: ['node', 'main.js'],
      autoMtls: false,
      required: false,
      failurePolicy: { 'agent/request': 'closed' },
      timeoutMs: 500,
      budgetMs: { 'agent/input': 5_000 },
      sha256: 'ab'.repeat(32),
      mode: 'enforce',
      match: { tenants: ['acme-*'], tools: ['shell'] },
      reinvoke: 'ifChanged',
      delivery: 'durable',
      maxInflight: 1,
      maxToolCalls: 32,
      restart: { policy: 'never', backoffMs: 100, maxBackoffMs: 100 },
      limits: { memoryMb: 64, processes: 3, openFiles: 64, logBytesPerSecond: 2_048 },
      env: ['AWS_REGION'],
      config: { deep: { er: [1] } },
    });
    const { match, ...rest } = JSON.parse(text);
    expect(parseSettings(text)).toEqual({ ...rest, matchJson: JSON.stringify(match) });
  });

  it.each([
    ['{"transport": "pipe"}', /"transport"/],
    ['{"delivery": "twice"}', /"delivery"/],
    ['{"sha256": "00"}', /"sha256": must be 64 lower-case hexadecimal digits/],
    ['{"mode": "shadwo"}', /"mode"/],
    ['{"match": {"tenant": ["a"]}}', /unknown field "tenant" in "match"/],
    ['{"match": {"tools": []}}', /"match.tools": an empty list would match nothing/],
    ['{"match": {"tools": "shell"}}', /"match.tools"/],
    ['{"reinvoke": true}', /"reinvoke"/],
    ['{"maxInflight": 0}', /"maxInflight"/],
    ['{"maxToolCalls": 257}', /"maxToolCalls"/],
    ['{"restart": {"policy": "sometimes"}}', /"restart.policy"/],
    ['{"restart": {"backoffMs": 60000}}', /"restart.backoffMs" is larger than "restart.maxBackoffMs"/],
    ['{"limits": {"memoryMb": 1}}', /"limits.memoryMb"/],
    ['{"limits": {"cpu": 1}}', /unknown field "cpu" in "limits"/],
    ['{"failurePolicy": {"agent/input": "open"}}', /"failurePolicy.agent\/input": "open" would loosen this port/],
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

  it('is never required in shadow mode', () => {
    expect(parseSettings('{"mode": "shadow", "required": true}').required).toBe(false);
    expect(saysNotRequired('{"mode": "shadow", "typo": 1}')).toBe(true);
  });

  it('takes an empty match for none', () => {
    expect(parseSettings('{"match": {}}').matchJson).toBe('');
  });

  it('has a JSON Schema that refuses and takes the same', () => {
    const validate = new Ajv2020({ strict: false, allErrors: true }).compile(pluginJsonSchema());
    expect(validate({ match: { tools: ['a'] }, restart: { policy: 'never' }, config: { any: 1 } })).toBe(true);
    for (const wrong of [{ match: { tools: [] } }, { typo: 1 }, { failurePolicy: { 'agent/input': 'open' } }])
      expect(validate(wrong)).toBe(false);
  });

  it('reads "required" even from a file that is refused', () => {
    expect(saysNotRequired('{"required": false, "typo": 1}')).toBe(true);
    expect(saysNotRequired('{"typo": 1}')).toBe(false);
    expect(saysNotRequired('{')).toBe(false);
  });
});
