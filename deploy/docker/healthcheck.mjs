// Exits 0 when the service of this container answers /healthz. The argument names the variable that says where it
// listens, so that a container with another address is asked at the right one.
const name = process.argv[2];
const address = process.env[name] || process.env.CODEDOCK_HEALTH_LISTEN || '';
const port = address.slice(address.lastIndexOf(':') + 1);
if (!/^\d+$/.test(port)) {
  console.error(`${name} is not host:port, so there is nothing to ask`);
  process.exit(1);
}
const host = address.slice(0, address.lastIndexOf(':'));
const local = host === '0.0.0.0' || host === '' ? '127.0.0.1' : host === '[::]' ? '[::1]' : host;
const answer = await fetch(`http://${local}:${port}/healthz`, { signal: AbortSignal.timeout(2_500) });
if (!answer.ok) {
  console.error(`/healthz answered ${answer.status}`);
  process.exit(1);
}
