import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testPlugin } from '@codedock/plugin-sdk/testing';
import { plugin } from './plugin.js';

test('subscribes to nothing and changes nothing', async () => {
  const tested = testPlugin(plugin);
  assert.deepEqual(tested.manifest.subscriptions, []);
  assert.equal((await tested.agentInput({ content: 'hello' })).decision, 'continued');
});
