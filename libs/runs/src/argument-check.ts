import type { JsonValue, ToolDefinition } from '@codedock/domain';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';

/** Compiled schemas kept; plugins come and go, and each version of a schema counts. */
const KEPT_SCHEMAS = 500;
/** Errors told to the model at once. */
const TOLD_ERRORS = 5;

/** Validates arguments against tools' schemas (JSON Schema 2020-12), each compiled once. */
export class ArgumentCheck {
  readonly #ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    validateFormats: false,
    addUsedSchema: false,
    logger: false,
  });
  readonly #compiled = new Map<string, ValidateFunction | undefined>();

  /** Undefined when the arguments satisfy the schema, else what the model is told: which field and why. */
  problem(tool: ToolDefinition, args: JsonValue): string | undefined {
    const validate = this.#validator(tool);
    if (validate === undefined) return 'the schema of this tool cannot be used; nothing satisfies it.';
    if (validate(args)) return undefined;
    const errors = validate.errors ?? [];
    const told = errors.slice(0, TOLD_ERRORS).map(describe).join('; ');
    const more = errors.length - TOLD_ERRORS;
    return more > 0 ? `${told}; and ${more} more.` : `${told}.`;
  }

  #validator(tool: ToolDefinition): ValidateFunction | undefined {
    const key = tool.schemaDigest;
    if (!this.#compiled.has(key)) {
      if (this.#compiled.size >= KEPT_SCHEMAS) this.#compiled.delete(this.#compiled.keys().next().value as string);
      this.#compiled.set(key, this.#compile(tool));
    }
    return this.#compiled.get(key);
  }

  #compile(tool: ToolDefinition): ValidateFunction | undefined {
    // Two tools may carry the same $id, and a $schema of another draft is no reason to refuse what 2020-12 understands.
    const { $id: _id, $schema: _schema, ...schema } = tool.parameters;
    try {
      return this.#ajv.compile(schema);
    } catch {
      return undefined;
    }
  }
}

function describe({ instancePath, keyword, message, params }: ErrorObject): string {
  const where = instancePath === '' ? 'the arguments' : instancePath;
  switch (keyword) {
    case 'required':
      return `${instancePath}/${params['missingProperty']} is missing`;
    case 'additionalProperties':
      return `${instancePath}/${params['additionalProperty']} is not known to this tool`;
    case 'enum':
      return `${where} must be one of ${JSON.stringify(params['allowedValues'])}`;
    default:
      return `${where} ${message ?? 'is invalid'}`;
  }
}
