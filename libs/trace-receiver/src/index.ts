export type { ReceivedSpan } from './received-span.js';
export { type SpanNode, spanForest } from './span-forest.js';
export { startTraceReceiver, type TraceReceiver, type TraceReceiverOptions } from './start-trace-receiver.js';
