/**
 * A schema of any library that follows the Standard Schema convention (zod 4.2 or newer among them). Only its description
 * of itself is used, so that no schema library becomes part of a plugin that does not use one.
 */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: 'draft-2020-12' }) => Record<string, unknown>;
    };
  };
}

/** What a schema says about a value. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One thing that is wrong, and where. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** Whether a value is such a schema rather than plain JSON. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  return (typeof value === 'object' || typeof value === 'function') && value !== null && '~standard' in value;
}

/** What is wrong, on one line. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues
    .map(({ message, path = [] }) => {
      const where = path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
      return where === '' ? message : `${where}: ${message}`;
    })
    .join('; ');
}
