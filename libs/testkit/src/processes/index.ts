export {
  type EventStream,
  type EventStreamOptions,
  openEventStream,
  type StreamFrame,
} from './event-stream.js';
export { type EventuallyOptions, eventually, eventuallyDefined, within } from './eventually.js';
export { freePort } from './free-port.js';
export { expectNoLeftovers, type TemporaryFolder, temporaryFolder } from './leftovers.js';
export {
  callsTools,
  failsWith,
  hangs,
  type Interruption,
  type ProviderReply,
  resets,
  type ScriptedToolCall,
  type ScriptedUsage,
  says,
} from './provider-reply.js';
export {
  type RecordedRequest,
  type RecordingProvider,
  recordingProvider,
  type ScriptedReply,
} from './recording-provider.js';
export {
  type ExitStatus,
  nodeTypeScript,
  type ProcessOptions,
  repositoryRoot,
  startProcess,
  type TestProcess,
} from './start-process.js';
