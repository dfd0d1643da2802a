import { ChannelCredentials, ServerCredentials } from '@grpc/grpc-js';

/** How both ends of a connection with the host prove who they are. */
export interface TransportSecurity {
  /** Field 6 of the handshake: base64 of the certificate, without padding; empty without TLS. */
  readonly handshakeField: string;
  readonly server: ServerCredentials;
  readonly client: ChannelCredentials;
}

/** Without the host's certificate, plain; with it, mutual TLS that trusts exactly this certificate. */
export async function createTransportSecurity(hostCertificate: string | undefined): Promise<TransportSecurity> {
  if (hostCertificate === undefined) {
    return {
      handshakeField: '',
      server: ServerCredentials.createInsecure(),
      client: ChannelCredentials.createInsecure(),
    };
  }
  // Loaded here, because it takes longer than everything else and a host without AutoMTLS does not need it.
  const { createIdentity } = await import('./identity.js');
  const { certificateDer, certificatePem, privateKeyPem } = await createIdentity();
  const trusted = Buffer.from(hostCertificate);
  const key = Buffer.from(privateKeyPem);
  const certificate = Buffer.from(certificatePem);
  return {
    handshakeField: certificateDer.toString('base64').replace(/=+$/, ''),
    server: ServerCredentials.createSsl(trusted, [{ private_key: key, cert_chain: certificate }], true),
    client: ChannelCredentials.createSsl(trusted, key, certificate),
  };
}
