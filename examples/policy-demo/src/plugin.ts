import { definePlugin, type JsonValue, type ToolPreExecute } from '@codedock/plugin-sdk';

const destructive = /\brm\s+-[a-z]*(?:rf|fr)[a-z]*\s+\/(?:\s|$|\*)/i;
const wantsPerson = /please approve/i;
const guarded = 'memory_write';

/** Refuses to remember a destructive command, puts before a person what asks for it, lets everything else pass. */
export const plugin = definePlugin({
  name: 'policy-demo',
  version: '0.1.0',
  onToolPreExecute: (input) => decide(input),
});

function decide(input: ToolPreExecute) {
  if (input.call.name !== guarded) return input.reply();
  const texts = [...textsOf(input.call.arguments)];
  if (texts.some((text) => destructive.test(text))) {
    return input.deny('the text looks like a command that deletes the whole file system');
  }
  if (texts.some((text) => wantsPerson.test(text)))
    return input.askApproval('the text asks for a person to approve it');
  return input.reply();
}

function* textsOf(value: JsonValue | undefined): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsOf(item);
  else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) yield* textsOf(item);
}
