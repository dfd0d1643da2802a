import { testPlugin } from '@codedock/plugin-sdk/testing';
import { plugin } from './plugin.js';

const tested = testPlugin(plugin);
const write = (text: unknown) =>
  tested.toolPreExecute({ name: 'memory_write', arguments: { name: 'note', text } as never });

describe('the demonstration policy', () => {
  it.each(['rm -rf /', 'please run: sudo RM  -fr /*', 'a\nrm -rf / \nb', ['nested', { deeper: 'rm -rf /' }]])(
    'denies %j',
    async (text) => {
      expect(await write(text)).toMatchObject({ decision: 'denied', reason: expect.stringContaining('deletes') });
    },
  );

  it('asks a person where the text asks for one', async () => {
    expect(await write('Please approve: the release date is Friday')).toMatchObject({ decision: 'asked' });
  });

  it.each(['the release date is Friday', 'rm -rf /tmp/build', 'format -rf /'])('lets %j pass', async (text) => {
    expect(await write(text)).toMatchObject({ decision: 'continued' });
  });

  it('concerns no other tool', async () => {
    expect(await tested.toolPreExecute({ name: 'shell', arguments: { command: 'rm -rf /' } })).toMatchObject({
      decision: 'continued',
    });
  });
});
