import { AppError, type Model, type ModelChoice } from '@codedock/domain';
import { fakeModel } from './fake/fake-model.js';
import { type OpenAiModel, type OpenAiOptions, openAiModel } from './openai/openai-model.js';

/** The providers of this process. */
export interface Models {
  /**
   * The provider a profile chose.
   * @throws AppError `provider_rejected` when it is not configured.
   */
  for(choice: ModelChoice): Model;
  close(): Promise<void>;
}

/** `fake` is always there; `openai` when it is configured. */
export function openModels(options: { readonly openai?: OpenAiOptions }): Models {
  const openai: OpenAiModel | undefined = options.openai && openAiModel(options.openai);
  return {
    for({ provider }) {
      if (provider === 'fake') return fakeModel;
      if (openai !== undefined) return openai;
      throw new AppError(
        'provider_rejected',
        'The agent uses the provider openai, which is not configured: set OPENAI_API_KEY or OPENAI_BASE_URL.',
      );
    },
    async close() {
      await openai?.close();
    },
  };
}
