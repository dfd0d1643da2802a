import { createHash } from 'node:crypto';
import { BUILT_IN_TOOLS, type Digest, digestOf, type Principal, type ToolDefinition } from '@codedock/domain';
import { ArgumentCheck, type DecisionJudge } from '@codedock/runs';
import type { PluginHosts } from '../tokens.js';

/** SHA-256 in hex: what runners seal with. */
const sha256: Digest = (text) => createHash('sha256').update(text, 'utf8').digest('hex');

const builtIn: ReadonlyMap<string, ToolDefinition> = new Map(
  BUILT_IN_TOOLS.map((tool) => [tool.name, { ...tool, schemaDigest: digestOf(sha256, tool.parameters) }]),
);
// Compiled schemas serve all requests.
const check = new ArgumentCheck();

/** Judges decisions about the tools that a run of this principal has: built-in ones first, as runners look them up. */
export function decisionJudge(hosts: Pick<PluginHosts, 'tools'>, principal: Principal): DecisionJudge {
  return {
    lookup: (name) => builtIn.get(name) ?? hosts.tools(principal).find((tool) => tool.name === name),
    arguments: check,
    digest: sha256,
  };
}
