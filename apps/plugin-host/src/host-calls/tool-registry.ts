import { AppError } from '@codedock/domain';
import { defaultToolTimeoutMs, type plugin } from '@codedock/proto';
import { Ajv2020 } from 'ajv/dist/2020.js';

/** Names that belong to the product. */
export const builtInTools: ReadonlySet<string> = new Set(['ping', 'memory_read', 'memory_write', 'memory_search']);

const toolName = /^[a-zA-Z0-9_-]{1,64}$/;
const effectClasses: ReadonlySet<string> = new Set(['', 'pure', 'idempotent', 'effectful']);
const maxSchemaBytes = 64 * 1024;
const maxPromptCharacters = 8 * 1024;
const maxTimeoutMs = 3_600_000;
const maxTools = 128;

/** A registered tool, checked; `effectClass` and `timeoutMs` filled in. */
export type Tool = Readonly<plugin.Method>;

/** The tools of one plugin process. `heldByOther` names the plugin that owns a name already, if one does. */
export class ToolRegistry {
  private readonly byName = new Map<string, Tool>();

  constructor(private readonly heldByOther: (name: string) => string | undefined) {}

  /** Takes a tool; the same name again replaces the plugin's own. @throws AppError saying what is wrong with it. */
  register(method: plugin.Method): void {
    const { name } = method;
    if (!toolName.test(name)) {
      throw new AppError(
        'invalid_request',
        `RegisterMethod: ${JSON.stringify(name.slice(0, 100))} is no tool name: 1 to 64 letters, digits, "_" or "-"`,
      );
    }
    if (builtInTools.has(name))
      throw new AppError('conflict', `RegisterMethod: "${name}" is a built-in tool; choose another name`);
    const holder = this.heldByOther(name);
    if (holder !== undefined)
      throw new AppError(
        'conflict',
        `RegisterMethod: the tool name "${name}" is held by plugin ${holder}; choose another name`,
      );
    if (!effectClasses.has(method.effectClass)) {
      throw new AppError(
        'invalid_request',
        `RegisterMethod: effect_class of "${name}" must be pure, idempotent or effectful`,
      );
    }
    if (method.prompt.length > maxPromptCharacters) {
      throw new AppError(
        'invalid_request',
        `RegisterMethod: the prompt of "${name}" has more than ${maxPromptCharacters} characters`,
      );
    }
    if (method.timeoutMs > maxTimeoutMs) {
      throw new AppError('invalid_request', `RegisterMethod: timeout_ms of "${name}" is over ${maxTimeoutMs}`);
    }
    if (this.byName.size >= maxTools && !this.byName.has(name)) {
      throw new AppError('invalid_request', `RegisterMethod: a plugin may register at most ${maxTools} tools`);
    }
    this.byName.set(name, {
      ...method,
      parametersSchema: checkedSchema(name, method.parametersSchema),
      effectClass: method.effectClass === '' ? 'effectful' : method.effectClass,
      timeoutMs: method.timeoutMs === 0 ? defaultToolTimeoutMs : method.timeoutMs,
    });
  }

  list(): readonly Tool[] {
    return [...this.byName.values()];
  }

  get(name: string): Tool | undefined {
    return this.byName.get(name);
  }
}

function checkedSchema(name: string, encoded: Buffer): Buffer {
  if (encoded.length === 0) return Buffer.from('{"type":"object"}');
  if (encoded.length > maxSchemaBytes)
    throw new AppError('invalid_request', `RegisterMethod: the schema of "${name}" is over ${maxSchemaBytes} bytes`);
  try {
    const schema: unknown = JSON.parse(encoded.toString('utf8'));
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) throw new Error('it is not an object');
    new Ajv2020({ strict: false, logger: false, validateFormats: false }).compile(schema);
    return encoded;
  } catch (error) {
    throw new AppError(
      'invalid_request',
      `RegisterMethod: parameters_schema of "${name}" is no valid JSON Schema 2020-12: ${(error as Error).message}`,
    );
  }
}
