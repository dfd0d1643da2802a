export type { AnsweredEnvelope, PortReply, SentQuestion } from './interpret-reply.js';
export { cutReason, DEFAULT_SKIP_RESULT, interpretReply, MAX_REASON_LENGTH } from './interpret-reply.js';
export { InvalidAnswer } from './invalid-answer.js';
export { rawMember } from './json-member.js';
export { compileMatch, type Match, type MatchSubject } from './match.js';
export {
  answerType,
  type Direction,
  type FailurePolicy,
  type PortClass,
  type PortGates,
  type PortSpec,
  portSpec,
  portTable,
  strictest,
} from './port-table.js';
export { type ReadJson, readJson, readJsonObject } from './read-json.js';
export {
  decodeScratchpad,
  encodeScratchpad,
  type MergedScratchpad,
  mergeScratchpad,
  type ScratchpadAnswer,
  scratchpadAnswer,
} from './scratchpad.js';
