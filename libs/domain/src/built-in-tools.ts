import type { ToolDefinition } from './tool-call.js';

/** A tool that comes with the product, without the digest that whoever executes it computes. */
export type BuiltInTool = Omit<ToolDefinition, 'schemaDigest' | 'plugin'>;

const scope = {
  type: 'string',
  enum: ['session', 'user', 'tenant'],
  description: 'Whose memory: this conversation (default), its user, or the whole tenant.',
};
const name = { type: 'string', minLength: 1, maxLength: 200, description: 'Name of the entry.' };

/** The built-in tools: what the model is told, and what the API lists. No plugin may register one of these names. */
export const BUILT_IN_TOOLS: readonly BuiltInTool[] = [
  {
    name: 'ping',
    description: 'Answers with the given text: shows that tools work.',
    parameters: {
      type: 'object',
      properties: { text: { type: 'string', maxLength: 10_000, description: 'What to answer; default pong.' } },
      additionalProperties: false,
    },
    requiresApproval: false,
    effect: 'pure',
    timeoutMs: 5_000,
  },
  {
    name: 'memory_read',
    description: 'Reads one entry of the memory.',
    parameters: { type: 'object', properties: { name, scope }, required: ['name'], additionalProperties: false },
    requiresApproval: false,
    effect: 'pure',
    timeoutMs: 10_000,
  },
  {
    name: 'memory_write',
    description: 'Writes one entry of the memory, replacing what it held.',
    parameters: {
      type: 'object',
      properties: { name, text: { type: 'string', maxLength: 100_000 }, scope },
      required: ['name', 'text'],
      additionalProperties: false,
    },
    requiresApproval: false,
    effect: 'idempotent',
    timeoutMs: 10_000,
  },
  {
    name: 'memory_search',
    description: 'Finds entries of the memory whose name or text holds the query, newest first.',
    parameters: {
      type: 'object',
      properties: {
        query: { type: 'string', minLength: 1, maxLength: 1_000 },
        limit: { type: 'integer', minimum: 1, maximum: 50, description: 'Default 10.' },
        scope,
      },
      required: ['query'],
      additionalProperties: false,
    },
    requiresApproval: false,
    effect: 'pure',
    timeoutMs: 10_000,
  },
];
