/** Helm keeps its releases in Secrets, and sends those as protobuf: `k8s\0`, then a runtime.Unknown with the object in it. */

type Field = readonly [number: number, value: Buffer | number];

function* fieldsOf(buffer: Buffer): Generator<Field> {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++] ?? 0;
      value |= BigInt(byte & 127) << shift;
      if ((byte & 128) === 0) return Number(value);
    }
  };
  while (at < buffer.length) {
    const tag = varint();
    const wire = tag & 7;
    if (wire === 0) yield [tag >> 3, varint()];
    else if (wire === 2) {
      const length = varint();
      yield [tag >> 3, buffer.subarray(at, at + length)];
      at += length;
    } else at += wire === 1 ? 8 : 4;
  }
}

function messages(fields: readonly Field[], number: number): Buffer[] {
  return fields.filter(([n]) => n === number).map(([, value]) => value as Buffer);
}

function text(fields: readonly Field[], number: number): string | undefined {
  return messages(fields, number)[0]?.toString('utf8');
}

function mapOf<T>(fields: readonly Field[], number: number, read: (value: Buffer) => T): Record<string, T> {
  return Object.fromEntries(
    messages(fields, number).map((entry) => {
      const parts = [...fieldsOf(entry)];
      return [text(parts, 1) ?? '', read(messages(parts, 2)[0] ?? Buffer.alloc(0))];
    }),
  );
}

/** The Secret in a protobuf body, as JSON would have it. */
export function secretOf(body: Buffer): Record<string, unknown> {
  const envelope = [...fieldsOf(body.subarray(4))];
  const type = [...fieldsOf(messages(envelope, 1)[0] ?? Buffer.alloc(0))];
  const object = [...fieldsOf(messages(envelope, 2)[0] ?? Buffer.alloc(0))];
  const metadata = [...fieldsOf(messages(object, 1)[0] ?? Buffer.alloc(0))];
  const asText = (value: Buffer) => value.toString('utf8');
  return {
    apiVersion: text(type, 1),
    kind: text(type, 2),
    metadata: {
      name: text(metadata, 1),
      namespace: text(metadata, 3),
      labels: mapOf(metadata, 11, asText),
      annotations: mapOf(metadata, 12, asText),
    },
    data: mapOf(object, 2, (value) => value.toString('base64')),
    type: text(object, 3),
  };
}
