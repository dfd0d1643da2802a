export { addressKind, guardedAgent, type Reach } from './egress.js';
export { fakeModel } from './fake/fake-model.js';
export type { FakeCall, FakeStep } from './fake/script.js';
export { guardedHeaders } from './guarded-headers.js';
export { type HeaderRefusal, type JudgedHeaders, judgeHeaders } from './header-policy.js';
export { configuredOpenAi, type Models, openModels, type ProviderSettings } from './models.js';
export { type OpenAiModel, type OpenAiOptions, openAiModel } from './openai/openai-model.js';
