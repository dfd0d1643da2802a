import { X509Certificate } from 'node:crypto';
import { createIdentity } from './certificate.js';
import { parseHandshake } from './handshake.js';

let der: string;

beforeAll(async () => {
  der = new X509Certificate((await createIdentity()).certificatePem).raw.toString('base64').replace(/=+$/, '');
});

describe('the handshake line', () => {
  it('gives where to connect and whom to trust', () => {
    expect(parseHandshake(` 1|1|unix|/tmp/p/s|grpc|${der}|true\r`, true)).toEqual({
      target: 'unix:/tmp/p/s',
      certificatePem: expect.stringContaining('BEGIN CERTIFICATE'),
    });
    expect(parseHandshake('1|1|tcp|127.0.0.1:1234|grpc', false)).toEqual({ target: '127.0.0.1:1234' });
    expect(parseHandshake('1|1|unix|/tmp/p/s|grpc|old text here', false)).toEqual({ target: 'unix:/tmp/p/s' });
  });

  it.each([
    ['loading config...', /no handshake: "loading config\.\.\."\. It writes to stdout before the handshake/],
    ['\uFEFF1|1|unix|/s|grpc', /is no number/],
    ['2|1|unix|/s|grpc', /core protocol 2, this host speaks 1/],
    ['x|1|unix|/s|grpc', /core protocol version "x" is no number/],
    ['1|9|unix|/s|grpc', /app protocol version 9, this host speaks 1/],
    ['1|v|unix|/s|grpc', /app protocol version "v" is no number/],
    ['1|1|unix|/s', /net\/rpc plugin/],
    ['1|1|unix|/s|netrpc', /net\/rpc plugin/],
    ['1|1|unix|/s|http', /protocol "http"/],
    ['1|1|udp|/s|grpc', /network "udp"/],
    ['1|1|tcp|10.0.0.1:80|grpc', /not on 127\.0\.0\.1/],
    ['1|1|unix|s|grpc', /not absolute/],
    [`1|1|unix|/${'s'.repeat(107)}|grpc`, /108 bytes, at most 107/],
    [`1|1|unix|/s|grpc|${'A'.repeat(60)}`, /no certificate \(base64 of DER\)/],
  ])('refuses %s', (line, message) => {
    expect(() => parseHandshake(line, false)).toThrow(message);
  });

  it('insists on a certificate exactly where AutoMTLS is on', () => {
    expect(() => parseHandshake('1|1|unix|/s|grpc|', true)).toThrow(
      /no certificate although AutoMTLS is on.*"autoMtls": false/,
    );
    expect(() => parseHandshake(`1|1|unix|/s|grpc|${der}`, false)).toThrow(/although AutoMTLS is off/);
  });
});
