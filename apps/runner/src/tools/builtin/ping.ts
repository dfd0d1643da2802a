import type { BuiltInFunction } from './builtin-tool.js';

/** Answers with the given text, else `pong`. */
export const ping: BuiltInFunction = async ({ text }) => ({ output: typeof text === 'string' ? text : 'pong' });
