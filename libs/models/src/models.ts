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

const PUBLIC_PROVIDER = 'https://api.openai.com/v1';

/** How a process was configured for an OpenAI-compatible provider. */
export interface ProviderSettings {
  readonly apiKey?: string;
  readonly baseUrl: string;
  readonly allowPrivateNetwork: boolean;
}

/** The provider as configured; undefined when neither a key nor an address of one's own says that there is one. */
export function configuredOpenAi({
  apiKey,
  baseUrl,
  allowPrivateNetwork,
}: ProviderSettings): OpenAiOptions | undefined {
  if (apiKey === undefined && baseUrl.replace(/\/$/, '') === PUBLIC_PROVIDER) return undefined;
  return { baseUrl, allowPrivateNetwork, ...(apiKey === undefined ? {} : { apiKey }) };
}
