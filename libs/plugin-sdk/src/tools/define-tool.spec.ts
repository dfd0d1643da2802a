import { z } from 'zod';
import { recordingHost, testPlugin } from '../testing/index.js';
import { defineTool } from './define-tool.js';

const execute = () => null;

describe('tools', () => {
  it('infer their arguments from the schema', async () => {
    const tool = defineTool({
      name: 'greet',
      description: 'Greets.',
      parameters: z.object({ who: z.string(), loud: z.boolean().optional() }),
      execute: ({ who, loud }) => {
        const checked: string = who;
        const optional: boolean | undefined = loud;
        return optional ? checked.toUpperCase() : checked;
      },
    });
    const tested = testPlugin({ name: 'p', version: '1', tools: [tool] });
    expect(await tested.callTool('greet', { who: 'a', loud: true })).toEqual({
      success: true,
      output: 'A',
      error: undefined,
    });
    expect(await tested.callTool('greet', {})).toMatchObject({
      success: false,
      error: expect.stringContaining('who: '),
    });
    expect(tested.host.registered.map(({ name }) => name)).toEqual(['greet']);
  });

  it('can be registered while the plugin starts, and executed then', async () => {
    const late = defineTool({ name: 'late', description: '', parameters: {}, execute: () => 'here' });
    const tested = testPlugin({ name: 'p', version: '1', bootstrap: (host) => host.registerTool(late) });
    expect(await tested.callTool('late')).toMatchObject({ output: 'here' });
  });

  it('that the host refuses cannot be executed', async () => {
    const refused = defineTool({ name: 'taken', description: '', parameters: {}, execute });
    const host = { ...recordingHost(), registerTool: () => Promise.reject(new Error('taken')) };
    const tested = testPlugin(
      { name: 'p', version: '1', bootstrap: (its) => its.registerTool(refused).catch(() => undefined) },
      { host },
    );
    await expect(tested.callTool('taken')).rejects.toThrow('the plugin has no tool "taken"');
  });

  it('are effectful unless they say otherwise', () => {
    expect(defineTool({ name: 'a', description: '', parameters: {}, execute })).toMatchObject({
      effect: 'effectful',
      requiresApproval: false,
      timeoutMs: 0,
      parametersSchema: {},
    });
  });

  it('with a name no model could call are refused', () => {
    expect(() => defineTool({ name: 'a b', description: '', parameters: {}, execute })).toThrow('is no tool name');
  });

  it('with a schema that cannot describe itself are refused', () => {
    const parameters = {
      '~standard': { version: 1, vendor: 'old', validate: (value: unknown) => ({ value }) },
    } as const;
    expect(() => defineTool({ name: 'a', description: '', parameters, execute })).toThrow(
      'this version of old does not write JSON Schema',
    );
  });

  it('defined twice are refused', () => {
    const tool = defineTool({ name: 'a', description: '', parameters: {}, execute });
    expect(() => testPlugin({ name: 'p', version: '1', tools: [tool, tool] })).toThrow('defines the tool "a" twice');
  });
});
