import {
  isWellFormed,
  type JsonValue,
  type Message,
  type ModelChunk,
  type ModelReply,
  type ModelRequest,
} from '@codedock/domain';
import { fakeModel } from './fake-model.js';
import { pieces } from './script.js';

const RUN = '0198c0de-0000-7000-8000-000000000001';

function message(role: Message['role'], text: string, runId?: string): Message {
  const base = {
    id: `m-${text}`,
    sessionId: 's',
    role,
    content: { text },
    eventSeq: 0,
    createdAt: '2025-01-01T00:00:00Z',
  };
  return runId === undefined ? base : { ...base, runId };
}

function request(messages: readonly Message[], script?: JsonValue): ModelRequest {
  return {
    model: { provider: 'fake', name: 'fake', ...(script !== undefined && { options: { script } }) },
    systemPrompt: '',
    messages,
    tools: [],
    retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 },
    runId: RUN,
    sessionId: 's',
  };
}

async function run(
  asked: ModelRequest,
  signal = new AbortController().signal,
): Promise<{ deltas: string[]; reply: ModelReply | undefined }> {
  const chunks: ModelChunk[] = [];
  for await (const chunk of fakeModel.stream(asked, { request: () => Promise.reject(new Error('asked')) }, signal))
    chunks.push(chunk);
  return {
    deltas: chunks.flatMap((chunk) => (chunk.kind === 'delta' ? [chunk.text] : [])),
    reply: chunks.flatMap((chunk) => (chunk.kind === 'completed' ? [chunk.reply] : []))[0],
  };
}

describe('fakeModel', () => {
  it('echoes the last user message in several pieces and never asks a provider gate', async () => {
    const { deltas, reply } = await run(request([message('user', 'first'), message('user', 'Hi 👋')]));
    expect(deltas.length).toBeGreaterThan(1);
    expect(deltas.join('')).toBe('You said: Hi 👋');
    expect(reply).toMatchObject({ text: 'You said: Hi 👋', toolCalls: [], finishReason: 'stop' });
  });

  it('plays the script by the number of replies of this run, then says done', async () => {
    const script = [{ text: 'one' }, { toolCalls: [{ name: 'ping', arguments: { a: 1 } }], usage: { inputTokens: 7 } }];
    const history = [message('assistant', 'other run', 'another'), message('user', 'go')];
    expect((await run(request(history, script))).reply?.text).toBe('one');
    const second = await run(request([...history, message('assistant', 'one', RUN)], script));
    expect(second.reply).toMatchObject({
      toolCalls: [{ name: 'ping', arguments: { a: 1 }, rawArguments: '{"a":1}' }],
      finishReason: 'tool_calls',
    });
    expect(second.reply?.usage.inputTokens).toBe(7);
    const third = await run(
      request([...history, message('assistant', 'one', RUN), message('assistant', '', RUN)], script),
    );
    expect(third.reply?.text).toBe('done');
  });

  it('takes a script from the last user message', async () => {
    const { reply } = await run(
      request([message('user', 'fake:[{"toolCalls":[{"name":"x","rawArguments":"{oops"}]}]')]),
    );
    expect(reply?.toolCalls[0]).toMatchObject({ name: 'x', arguments: undefined, rawArguments: '{oops' });
  });

  it.each(['fake:no json', 'fake:{"text":"no array"}', 'fake:[1]', 'fake:[{"fail":"nonsense"}]'])(
    'refuses the script %s',
    async (text) => {
      await expect(run(request([message('user', text)]))).rejects.toMatchObject({ code: 'provider_rejected' });
    },
  );

  it('fails with the scripted code after its pieces', async () => {
    await expect(
      run(request([message('user', 'fake:[{"text":"a","fail":"provider_throttled"}]')])),
    ).rejects.toMatchObject({
      code: 'provider_throttled',
    });
  });

  it('hangs until it is aborted', async () => {
    const abort = new AbortController();
    const hanging = run(request([message('user', 'fake:[{"hang":true}]')]), abort.signal);
    const reason = new Error('stop');
    abort.abort(reason);
    await expect(hanging).rejects.toBe(reason);
  });

  it('never cuts a text inside a surrogate pair', () => {
    expect(pieces('👋👋👋👋👋').every(isWellFormed)).toBe(true);
    expect(pieces('')).toEqual([]);
  });
});
