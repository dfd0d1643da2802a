import { X509Certificate } from 'node:crypto';
import { isAbsolute } from 'node:path';
import { AppError } from '@codedock/domain';
import { pemOf } from './certificate.js';
import { appProtocolVersions } from './child-env.js';

/** Where a started plugin listens, and the one certificate to trust there (absent without AutoMTLS). */
export interface Handshake {
  readonly target: string;
  readonly certificatePem?: string;
}

/** Bytes of the longest unix socket path that every platform in use takes whole. */
export const maxSocketPathBytes = process.platform === 'darwin' ? 103 : 107;

const certificateThreshold = 50;
const quotedCharacters = 200;

/**
 * Reads the first line a plugin printed. Every way it can be wrong is refused with its own cause and remedy.
 * @throws AppError `plugin_refused`.
 */
export function parseHandshake(line: string, autoMtls: boolean): Handshake {
  const fields = line.replace(/^[\t\n\v\f\r ]+|[\t\n\v\f\r ]+$/g, '').split('|');
  const [core = '', app = '', network = '', address = '', protocol = 'netrpc', extra = ''] = fields;
  if (fields.length < 4) {
    throw refused(
      `its first line on stdout is no handshake: ${quote(line)}. It writes to stdout before the handshake, or is no plugin; log to stderr`,
    );
  }
  if (!/^\d+$/.test(core))
    throw refused(
      `its core protocol version ${quote(core)} is no number; it writes to stdout before the handshake, or is no plugin`,
    );
  if (core !== '1')
    throw refused(`it speaks core protocol ${core}, this host speaks 1; build it with a go-plugin 1.x library`);
  if (!/^\d+$/.test(app))
    throw refused(`its app protocol version ${quote(app)} is no number; build it with a go-plugin library`);
  if (!appProtocolVersions.includes(Number(app))) {
    throw refused(
      `it speaks app protocol version ${app}, this host speaks ${appProtocolVersions.join(', ')}; install a build for this host`,
    );
  }
  if (protocol === '' || protocol === 'netrpc')
    throw refused("it is a net/rpc plugin; build it with go-plugin's gRPC protocol");
  if (protocol !== 'grpc') throw refused(`it offers the protocol ${quote(protocol)}; only "grpc" is supported`);
  return { target: targetOf(network, address), ...trustOf(extra, autoMtls) };
}

function targetOf(network: string, address: string): string {
  if (network === 'tcp') {
    if (!/^127\.0\.0\.1:\d{1,5}$/.test(address))
      throw refused(`its address ${quote(address)} is not on 127.0.0.1; a plugin listens on loopback or a unix socket`);
    return address;
  }
  if (network !== 'unix')
    throw refused(`it listens on the network ${quote(network)}; only "unix" and "tcp" are supported`);
  if (!isAbsolute(address)) throw refused(`its socket path ${quote(address)} is not absolute`);
  if (Buffer.byteLength(address) > maxSocketPathBytes) {
    throw refused(
      `its socket path has ${Buffer.byteLength(address)} bytes, at most ${maxSocketPathBytes} work; set TMPDIR of this host to a shorter folder`,
    );
  }
  return `unix:${address}`;
}

function trustOf(extra: string, autoMtls: boolean): { certificatePem?: string } {
  const certificate = extra.length > certificateThreshold ? certificateOf(extra) : undefined;
  if (autoMtls && certificate === undefined) {
    throw refused(
      'it sent no certificate although AutoMTLS is on; build it with AutoMTLS, or set "autoMtls": false in its plugin.json',
    );
  }
  if (!autoMtls && certificate !== undefined) {
    throw refused(
      'it sent a certificate although AutoMTLS is off for it; remove "autoMtls": false from its plugin.json',
    );
  }
  return certificate === undefined ? {} : { certificatePem: certificate };
}

function certificateOf(text: string): string {
  try {
    return new X509Certificate(pemOf(Buffer.from(text, 'base64'))).toString();
  } catch {
    throw refused(
      'the sixth field of its handshake is no certificate (base64 of DER); build it with a go-plugin library',
    );
  }
}

function refused(message: string): AppError {
  return new AppError('plugin_refused', message);
}

function quote(text: string): string {
  return JSON.stringify(text.length > quotedCharacters ? `${text.slice(0, quotedCharacters)}…` : text);
}
