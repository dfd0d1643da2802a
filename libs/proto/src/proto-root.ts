import { join } from 'node:path';

/** Absolute path of the folder that holds the .proto files, for loaders that read them at run time. */
export const protoRoot: string = join(__dirname, '..', 'proto');
