import { type BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';

/** What can encode messages of one type. */
interface Encoder<T> {
  encode(message: T, writer?: BinaryWriter): BinaryWriter;
}

/** A writer that has grown beyond this many bytes is not kept. */
const KEPT_BYTES = 1024 * 1024;

let writer = new BinaryWriter();

/**
 * The message's bytes, in memory of their own. Encoding is synchronous, so one writer serves all messages and its
 * buffer grows once instead of with every message.
 */
export function encoded<T>(type: Encoder<T>, message: T): Buffer {
  try {
    const bytes = type.encode(message, writer).finish();
    if (bytes.length > KEPT_BYTES) writer = new BinaryWriter();
    return view(bytes);
  } catch (error) {
    // What it has written so far must not begin the next message.
    writer = new BinaryWriter();
    throw error;
  }
}

/** The next bytes field, as a view of the message it is part of. */
export function bytesOf(reader: BinaryReader): Buffer {
  return view(reader.bytes());
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
