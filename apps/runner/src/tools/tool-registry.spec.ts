import type { JsonValue, RunConfig, ToolDefinition, ToolInvocation } from '@codedock/domain';
import type { MemoryEntry, MemoryOwner, MemoryStore } from '@codedock/store';
import { sha256 } from '../adapters.js';
import { NO_PLUGIN_TOOLS, type PluginTools } from './plugin-tools.js';
import { type LocalTool, openToolRegistry } from './tool-registry.js';

const config = (more: Partial<RunConfig> = {}) =>
  ({ tools: ['ping'], deniedTools: [], ...more }) as unknown as RunConfig;
const signal = () => new AbortController().signal;

function definition(
  name: string,
  parameters: ToolDefinition['parameters'] = { type: 'object' },
  more: Partial<ToolDefinition> = {},
): ToolDefinition {
  return {
    name,
    description: '',
    parameters,
    requiresApproval: false,
    effect: 'pure',
    timeoutMs: 1_000,
    schemaDigest: sha256(name + JSON.stringify(parameters)),
    ...more,
  };
}

/** The memory of the tests: the contract of the store over a map. */
function memoryOf(): MemoryStore & { readonly entries: Map<string, MemoryEntry> } {
  const entries = new Map<string, MemoryEntry>();
  const key = ({ tenantId, scope, owner }: MemoryOwner, name: string) => [tenantId, scope, owner, name].join('/');
  return {
    entries,
    get: async (owner, name) => entries.get(key(owner, name)),
    async upsert(owner, name, text) {
      const entry = { name, text, updatedAt: 'now' };
      entries.set(key(owner, name), entry);
      return entry;
    },
    search: async (owner, query, limit) =>
      [...entries]
        .flatMap(([k, entry]) => (k.startsWith(key(owner, '')) && entry.text.includes(query) ? [entry] : []))
        .slice(0, limit),
  };
}

const registry = (extra: LocalTool[] = [], memory = memoryOf()) => openToolRegistry({ digest: sha256, memory, extra });

function invocation(tool: ToolDefinition | undefined, args: JsonValue, actor?: string): ToolInvocation {
  if (tool === undefined) throw new Error('no such tool');
  return {
    tool,
    callId: 'c',
    arguments: args,
    n: 1,
    idempotencyKey: 'c',
    tenantId: 't',
    sessionId: 's',
    runId: 'r',
    turnId: 'u',
    principal: { tenant: 't', key: 'k', agent: 'a', metadata: {}, ...(actor !== undefined && { actor }) },
  };
}

describe('the visible set', () => {
  const plugins: PluginTools = {
    ...NO_PLUGIN_TOOLS,
    list: () => [definition('deploy'), definition('ping', {}, { plugin: 'evil' })],
  };

  it('is the profile’s names and live plugin tools, less the denied ones; no plugin takes a name of ours', async () => {
    const names = async (more: Partial<RunConfig>) =>
      (await registry().forRun(config(more), plugins).visible()).map(({ name }) => name);
    expect(await names({ tools: ['memory_read', 'ping', 'ping', 'no_such'] })).toEqual([
      'memory_read',
      'ping',
      'deploy',
    ]);
    expect(await names({ deniedTools: ['deploy', 'ping'] })).toEqual([]);
    expect(registry().forRun(config(), plugins).lookup('ping')?.plugin).toBeUndefined();
  });

  it('follows plugins that come and go', async () => {
    let live: ToolDefinition[] = [];
    const tools = registry().forRun(config({ tools: [] }), { ...NO_PLUGIN_TOOLS, list: () => live });
    expect(tools.lookup('deploy')).toBeUndefined();
    live = [definition('deploy')];
    expect(await tools.visible()).toHaveLength(1);
    expect(tools.lookup('deploy')).toBeDefined();
  });
});

describe('the active set', () => {
  it('holds what was set last before each model call', async () => {
    const plugins: PluginTools = { ...NO_PLUGIN_TOOLS, list: () => [definition('deploy'), definition('search')] };
    let active: string[] | undefined;
    const tools = registry().forRun(config(), plugins, async () => active);
    const names = async () => (await tools.visible()).map(({ name }) => name);
    expect(await names()).toEqual(['ping', 'deploy', 'search']);
    active = ['search'];
    expect(await names()).toEqual(['ping', 'search']);
    active = [];
    expect(await names()).toEqual(['ping']);
  });
});

describe('validation', () => {
  const problem = (parameters: ToolDefinition['parameters'], args: JsonValue) =>
    registry().forRun(config(), NO_PLUGIN_TOOLS).validate(definition('x', parameters), args);

  it.each<[ToolDefinition['parameters'], JsonValue, string | undefined]>([
    [{ type: 'object' }, {}, undefined],
    [{ type: 'object', required: ['name'] }, {}, '/name is missing'],
    [{ type: 'object', additionalProperties: false }, { a: 1 }, '/a is not known to this tool'],
    [{ type: 'object', properties: { a: { enum: ['x', 'y'] } } }, { a: 'z' }, '/a must be one of ["x","y"]'],
    [{ type: 'object', properties: { a: { type: 'integer', minimum: 1 } } }, { a: 0 }, '/a must be >= 1'],
    [{ type: 'object' }, 'text', 'the arguments must be object'],
    [{ type: 'object', prefixItems: 3 }, {}, 'cannot be used'],
    [{ $schema: 'http://json-schema.org/draft-07/schema#', $id: 'same', type: 'object' }, {}, undefined],
  ])('%j against %j', (parameters, args, expected) => {
    const found = problem(parameters, args);
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toContain(expected);
  });

  it('tells a bounded number of errors', () => {
    const wrong = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`k${i}`, 1]));
    const found = problem({ type: 'object', additionalProperties: false }, wrong);
    expect(found).toContain('and 45 more');
  });
});

describe('execution', () => {
  const run = (name: string, args: JsonValue, options: { actor?: string; memory?: MemoryStore } = {}) => {
    const tools = openToolRegistry({ digest: sha256, memory: options.memory ?? memoryOf() }).forRun(
      config(),
      NO_PLUGIN_TOOLS,
    );
    return tools.execute(invocation(tools.lookup(name), args, options.actor), signal());
  };

  it('ping answers', async () => {
    expect(await run('ping', {})).toEqual({
      kind: 'result',
      source: 'tool',
      result: { success: true, output: 'pong' },
    });
    expect(await run('ping', { text: 'hi' })).toMatchObject({ result: { output: 'hi' } });
  });

  it('memory is written, read and found in its scope', async () => {
    const memory = memoryOf();
    await run('memory_write', { name: 'n', text: 'blue' }, { memory });
    await run('memory_write', { name: 'n', text: 'red', scope: 'user' }, { memory, actor: 'ann' });
    expect([...memory.entries.keys()]).toEqual(['t/session/s/n', 't/user/ann/n']);
    expect(await run('memory_read', { name: 'n' }, { memory })).toMatchObject({ result: { output: { text: 'blue' } } });
    expect(await run('memory_search', { query: 're', scope: 'user' }, { memory, actor: 'ann' })).toMatchObject({
      result: { output: { entries: [{ text: 'red' }] } },
    });
    expect(await run('memory_read', { name: 'no' }, { memory })).toMatchObject({
      result: { success: false, error: expect.stringContaining('"no"') },
    });
    expect(await run('memory_read', { name: 'n', scope: 'user' }, { memory })).toMatchObject({
      result: { success: false },
    });
  });

  it('is unknown when it takes too long or is stopped, and a failed result when the tool breaks', async () => {
    const hanging: LocalTool = {
      definition: definition('hang', {}, { timeoutMs: 20 }),
      call: () => new Promise(() => {}),
    };
    const breaking: LocalTool = { definition: definition('break'), call: () => Promise.reject(new Error('no disk')) };
    const tools = registry([hanging, breaking]).forRun(config(), NO_PLUGIN_TOOLS);
    expect(await tools.execute(invocation(tools.lookup('hang'), {}), signal())).toMatchObject({ kind: 'unknown' });
    const abort = new AbortController();
    const stopped = tools.execute(invocation(tools.lookup('hang'), {}), abort.signal);
    abort.abort();
    expect(await stopped).toMatchObject({ kind: 'unknown' });
    expect(await tools.execute(invocation(tools.lookup('break'), {}), signal())).toMatchObject({
      result: { success: false, error: 'break failed: no disk' },
    });
  });
});
