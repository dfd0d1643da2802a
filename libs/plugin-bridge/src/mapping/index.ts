import type { Port } from '@codedock/proto';
import { afterToolCallMapping } from './after-tool-call.js';
import { beforeInputMapping } from './before-input.js';
import { beforeProviderRequestMapping } from './before-provider-request.js';
import { beforeRunStartMapping } from './before-run-start.js';
import { beforeToolCallMapping } from './before-tool-call.js';
import type { PortMapping } from './port-mapping.js';
import { transformContextMapping } from './transform-context.js';

/** The mapping of every port. */
export const portMappings: { readonly [P in Port]: PortMapping<P> } = {
  'agent/input': beforeInputMapping,
  'agent/pre-step': beforeRunStartMapping,
  'agent/request': transformContextMapping,
  'llm/stream': beforeProviderRequestMapping,
  'tools/pre-execute': beforeToolCallMapping,
  'tools/post-execute': afterToolCallMapping,
};
