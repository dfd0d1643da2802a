import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type App, ConfigError, type Environment, readConfig, readTlsFiles } from '@codedock/platform';
import { about, type Finding, textOfError } from './finding.js';

const DAY_MS = 86_400_000;
const SOON_DAYS = 21;

/** Every variable of the services named, as they would judge it at their start. */
export function checkConfiguration(apps: readonly App[], environment: Environment): Finding[] {
  return apps.flatMap((app) => {
    const { ok, failed } = about('configuration', app);
    try {
      readConfig(app, environment);
      return [ok('no contradictions')];
    } catch (error) {
      if (!(error instanceof ConfigError)) return [failed(textOfError(error))];
      return error.problems.map(({ variable, message }) => ({
        ...failed(message, `Correct ${variable} and restart the ${app}.`),
        where: `${app}: ${variable}`,
      }));
    }
  });
}

/** The certificates of mutual TLS: readable, fitting, signed by their authority, and still valid for a while. */
export function checkCertificates(environment: Environment, now: number): Finding[] {
  const named = {
    tlsCaFile: environment['CODEDOCK_TLS_CA_FILE'] || undefined,
    tlsCertFile: environment['CODEDOCK_TLS_CERT_FILE'] || undefined,
    tlsKeyFile: environment['CODEDOCK_TLS_KEY_FILE'] || undefined,
  };
  try {
    if (readTlsFiles(named) === undefined) {
      return [about('certificates', 'CODEDOCK_TLS_*').skipped('no mutual TLS is configured here')];
    }
  } catch (error) {
    return [about('certificates', 'CODEDOCK_TLS_*').failed(textOfError(error))];
  }
  const read = (path: string | undefined) => new X509Certificate(readFileSync(path ?? ''));
  const [authority, own] = [read(named.tlsCaFile), read(named.tlsCertFile)];
  const { failed } = about('certificates', `CODEDOCK_TLS_CERT_FILE ${named.tlsCertFile}`);
  return [
    ...(own.checkIssued(authority) && own.verify(authority.publicKey)
      ? []
      : [
          failed(
            'it was not signed by CODEDOCK_TLS_CA_FILE',
            'Issue it anew from that authority, or set the right one.',
          ),
        ]),
    validity('CODEDOCK_TLS_CA_FILE', named.tlsCaFile, authority, now),
    validity('CODEDOCK_TLS_CERT_FILE', named.tlsCertFile, own, now),
  ];
}

function validity(variable: string, path: string | undefined, certificate: X509Certificate, now: number): Finding {
  const { ok, warning, failed } = about('certificates', `${variable} ${path}`);
  const renew = 'Issue it anew, and restart the services that read it.';
  const [from, to] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
  const until = new Date(to).toISOString();
  if (now > to) return failed(`it expired at ${until}`, renew);
  if (now < from) return failed(`it is not valid before ${new Date(from).toISOString()}`, 'Check the clock, or wait.');
  const days = Math.floor((to - now) / DAY_MS);
  return days < SOON_DAYS ? warning(`it expires in ${days} days, at ${until}`, renew) : ok(`valid until ${until}`);
}
