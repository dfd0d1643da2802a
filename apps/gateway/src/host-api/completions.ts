import {
  AppError,
  isAppError,
  type Message,
  type ModelReply,
  type ModelRequest,
  wellFormedText,
} from '@codedock/domain';
import type { Models } from '@codedock/models';
import { ATTRIBUTES, withSpan } from '@codedock/platform';
import type { plugin } from '@codedock/proto';
import type { Store } from '@codedock/store';
import { SpanKind } from '@opentelemetry/api';
import type { Authority } from './plugin-authority.js';
import { type SessionWork, sessionWork } from './session-work.js';

/** Milliseconds a completion takes at most. */
const LONGEST_MS = 30_000;
/** Tokens of the reply, unless the profile's model has less. */
const MAX_OUTPUT_TOKENS = 4_096;
/** UTF-16 code units of prompt and text together. */
const MAX_TEXT = 1_000_000;

/** What completions need. */
export interface CompletionParts {
  readonly store: Pick<Store, 'runs' | 'agents'>;
  readonly models: Pick<Models, 'for'>;
  readonly ids: { next(): string };
  readonly now: () => number;
}

/** How long a completion may take. */
export interface CompletionLimit {
  /** Milliseconds left for the call it is made in; 0 = not said. */
  readonly timeoutMs: number;
  /** Aborted when the plugin gives it up. */
  readonly signal: AbortSignal;
}

/**
 * One model call of a plugin: the profile's model, no tools, no gates; accounted to the run, or where there is none to
 * the session, before it is answered. Cut at 30 s and at the end of the call it was made in.
 * @throws AppError `rate_limited` when the run has used its tokens, `provider_timeout` when it was cut, `provider_*` as the model fails, `invalid_request`, `too_large`.
 */
export async function complete(
  parts: CompletionParts,
  authority: Authority,
  { prompt, text }: Pick<plugin.CompleteRequest, 'prompt' | 'text'>,
  limit: CompletionLimit,
): Promise<string> {
  if (text === '') throw new AppError('invalid_request', 'Complete needs a text.');
  if (prompt.length + text.length > MAX_TEXT)
    throw new AppError('too_large', `Complete takes at most ${MAX_TEXT} characters of prompt and text together.`);
  const { capability, plugin: name } = authority;
  const work = await sessionWork(parts.store, authority);
  requireTokens(work);
  const timeoutMs = Math.min(LONGEST_MS, limit.timeoutMs || LONGEST_MS, capability.expiresAt - parts.now());
  const cut = AbortSignal.timeout(Math.max(1, Math.floor(timeoutMs)));
  const request: ModelRequest = {
    model: {
      ...work.config.model,
      maxOutputTokens: Math.min(work.config.model.maxOutputTokens ?? MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS),
    },
    systemPrompt: wellFormedText(prompt),
    messages: [userMessage(parts, capability.session, wellFormedText(text))],
    tools: [],
    retry: work.config.retry,
    runId: work.runId ?? '',
    sessionId: capability.session,
  };
  const attributes = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': request.model.provider,
    'gen_ai.request.model': request.model.name,
    'gen_ai.conversation.id': capability.session,
    [ATTRIBUTES.plugin]: name,
    [ATTRIBUTES.sessionId]: capability.session,
  };
  const reply = await withSpan(`chat ${request.model.name}`, { kind: SpanKind.CLIENT, attributes }, async (span) => {
    const answered = await replyOf(parts.models, request, AbortSignal.any([cut, limit.signal])).catch(
      (error: unknown) => {
        if (cut.aborted)
          throw new AppError('provider_timeout', `Complete was cut after ${Math.round(timeoutMs)} ms.`, {
            cause: error,
          });
        if (limit.signal.aborted)
          throw new AppError('provider_timeout', 'Complete was given up by the plugin.', { cause: error });
        throw error;
      },
    );
    span.setAttributes({
      'gen_ai.usage.input_tokens': answered.usage.inputTokens,
      'gen_ai.usage.output_tokens': answered.usage.outputTokens,
      'gen_ai.response.finish_reasons': [answered.finishReason],
    });
    return answered;
  });
  await parts.store.runs.addUsage({
    tenantId: capability.tenant,
    sessionId: capability.session,
    usage: reply.usage,
    ...(work.runId === undefined ? {} : { runId: work.runId }),
  });
  return wellFormedText(reply.text);
}

/** What a run may not spend itself, no plugin spends for it. */
function requireTokens({ config, usage }: SessionWork): void {
  const { maxTokens } = config.limits;
  if (maxTokens === undefined || usage === undefined || usage.inputTokens + usage.outputTokens < maxTokens) return;
  throw new AppError('rate_limited', `Complete was refused: the run has used its ${maxTokens} tokens.`);
}

async function replyOf(models: Pick<Models, 'for'>, request: ModelRequest, signal: AbortSignal): Promise<ModelReply> {
  try {
    for await (const chunk of models.for(request.model).stream(request, {}, signal)) {
      if (chunk.kind === 'completed') return chunk.reply;
    }
  } catch (error) {
    if (isAppError(error) || signal.aborted) throw error;
    throw new AppError('provider_unavailable', 'The model could not be asked.', { cause: error });
  }
  throw new AppError('provider_protocol', 'The model ended without a reply.');
}

function userMessage({ ids, now }: CompletionParts, sessionId: string, text: string): Message {
  return {
    id: ids.next(),
    sessionId,
    role: 'user',
    content: { text },
    eventSeq: 0,
    createdAt: new Date(now()).toISOString(),
  };
}
