import { testPlugin } from '@codedock/plugin-sdk/testing';
import { plugin } from './plugin.js';

describe('the template', () => {
  it('subscribes to nothing and offers nothing', async () => {
    const tested = testPlugin(plugin);
    expect(tested.manifest.subscriptions).toEqual([]);
    expect(await tested.agentInput({ content: 'AKIAIOSFODNN7EXAMPLE' })).toMatchObject({
      decision: 'continued',
      changed: false,
    });
    expect(tested.host.registered).toEqual([]);
  });
});
