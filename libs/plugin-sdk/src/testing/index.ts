/** Runs plugins without a host: in their own tests, and in the tests of hosts. */
export { type ConformanceRow, conformanceTable, sampleQuestions } from './conformance.js';
export type { Decision } from './decide.js';
export type { EnvelopeJson } from './envelope-json.js';
export { createHostIdentity, type HostIdentity } from './host-identity.js';
export { type RecordingHost, type RecordingHostOptions, recordingHost } from './recording-host.js';
export { type Recorded, type Replayed, readRecording, replay } from './replay.js';
export { type ReplaceServices, type ShutdownBehaviour, serveUnchecked } from './serve-unchecked.js';
export { type QuestionOptions, type TestCall, type TestedPlugin, type ToolOutcome, testPlugin } from './test-plugin.js';
