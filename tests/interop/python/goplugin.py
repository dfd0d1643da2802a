"""What a Python program needs to be a go-plugin plugin over gRPC: handshake, health, broker, output, shutdown, AutoMTLS.

The generated modules of plugin/wire.proto and codedock/plugin/v1/plugin.proto are expected on sys.path.
"""

import base64
import datetime
import json
import os
import queue
import signal
import sys
import tempfile
import threading
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from plugin import wire_pb2, wire_pb2_grpc

COOKIE = ("CODEDOCK_PLUGIN", "codedock-plugin-v1")
APP_PROTOCOL_VERSION = 1
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# The broker and output streams hold a worker each for the life of the process; the rest is for calls.
WORKERS = 32
DIAL_TIMEOUT_S = 5


class Security:
    """Plain, or mutual TLS that trusts exactly the host's certificate."""

    def __init__(self, host_certificate):
        self.host_certificate = host_certificate.encode() if host_certificate else None
        self.handshake_field = ""
        if self.host_certificate is None:
            return
        trusted = x509.load_pem_x509_certificate(self.host_certificate).public_key()
        if isinstance(trusted, ec.EllipticCurvePublicKey) and isinstance(trusted.curve, ec.SECP521R1):
            log("warn", "the host's certificate is P-521: grpcio's wheels take none from a client; turn AutoMTLS off")
        # P-256, whatever curve the host uses: every TLS library takes it.
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.timezone.utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(seconds=30))
            .not_valid_after(now + datetime.timedelta(days=3650))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    key_encipherment=True,
                    key_agreement=True,
                    key_cert_sign=True,
                    content_commitment=False,
                    data_encipherment=False,
                    crl_sign=False,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        self.key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        der = certificate.public_bytes(serialization.Encoding.DER)
        self.handshake_field = base64.b64encode(der).decode().rstrip("=")

    def listen(self, server, address):
        if self.host_certificate is None:
            return server.add_insecure_port(address)
        credentials = grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.host_certificate, require_client_auth=True
        )
        return server.add_secure_port(address, credentials)

    def dial(self, address):
        if self.host_certificate is None:
            return grpc.insecure_channel(address, UNLIMITED + [("grpc.default_authority", "localhost")])
        credentials = grpc.ssl_channel_credentials(self.host_certificate, self.key, self.certificate)
        return grpc.secure_channel(address, credentials, UNLIMITED + [("grpc.ssl_target_name_override", "localhost")])


class Broker(wire_pb2_grpc.GRPCBrokerServicer):
    """Remembers where the host announced its services, in whichever order announcement and dial come."""

    def __init__(self, security, on_lost):
        self._security = security
        self._on_lost = on_lost
        self._announced = {}
        self._changed = threading.Condition()

    def StartStream(self, request_iterator, context):
        context.add_callback(self._on_lost)
        outgoing = queue.Queue()
        threading.Thread(target=self._read, args=(request_iterator, outgoing), daemon=True).start()
        yield from iter(outgoing.get, None)

    def dial(self, service_id):
        """A channel to the service of an id. Each announcement serves one dial, so keep the channel."""
        with self._changed:
            if not self._changed.wait_for(lambda: service_id in self._announced, DIAL_TIMEOUT_S):
                raise TimeoutError(f"the host announced no service {service_id} within {DIAL_TIMEOUT_S} s")
            info = self._announced.pop(service_id)
        return self._security.dial(f"unix:{info.address}" if info.network == "unix" else info.address)

    def _read(self, announcements, outgoing):
        try:
            for info in announcements:
                with self._changed:
                    self._announced[info.service_id] = info
                    self._changed.notify_all()
        except grpc.RpcError:
            pass
        outgoing.put(None)


class Output(wire_pb2_grpc.GRPCStdioServicer):
    """Takes what the program prints and gives it to the host."""

    def __init__(self):
        self._pieces = queue.Queue(maxsize=1000)

    def write(self, text):
        try:
            self._pieces.put_nowait(text.encode())
        except queue.Full:
            pass
        return len(text)

    def flush(self):
        pass

    def StreamStdio(self, request, context):
        context.add_callback(lambda: self._pieces.put(None))
        for piece in iter(self._pieces.get, None):
            yield wire_pb2.StdioData(channel=wire_pb2.StdioData.STDOUT, data=piece)


class Controller(wire_pb2_grpc.GRPCControllerServicer):
    def __init__(self, stop):
        self._stop = stop

    def Shutdown(self, request, context):
        self._stop.set()
        return wire_pb2.Empty()


def log(level, message, **fields):
    """A line for the host's log, in hclog's form; on the real stderr."""
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    line = {"@level": level, "@message": message, "@timestamp": time, **fields}
    os.write(2, (json.dumps(line) + "\n").encode())


def serve(add_services):
    """Serves until the host ends the plugin. `add_services(server, dial)` adds the application's; dial(id) gives a channel."""
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit("This is a CodeDock plugin. It is started by the plugin-host, not by hand.")
    offered = os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(",")
    if str(APP_PROTOCOL_VERSION) not in offered:
        log("error", "the host offers no protocol version of this plugin", offered=offered)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The first line on stdout is the handshake: nothing else may be printed there.
    output = Output()
    sys.stdout = output
    stop = threading.Event()
    security = Security(os.environ.get("PLUGIN_CLIENT_CERT"))
    broker = Broker(security, stop.set)
    server = grpc.server(futures.ThreadPoolExecutor(WORKERS), options=UNLIMITED)
    checks = health.HealthServicer()
    checks.set("plugin", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    wire_pb2_grpc.add_GRPCBrokerServicer_to_server(broker, server)
    wire_pb2_grpc.add_GRPCStdioServicer_to_server(output, server)
    wire_pb2_grpc.add_GRPCControllerServicer_to_server(Controller(stop), server)
    add_services(server, broker.dial)
    folder = tempfile.mkdtemp(prefix="p", dir=os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or None)
    path = os.path.join(folder, "s")
    security.listen(server, f"unix:{path}")
    server.start()
    fields = ["1", str(APP_PROTOCOL_VERSION), "unix", path, "grpc", security.handshake_field]
    # Hosts before go-plugin 1.6 read six fields, so the seventh is only for those that ask.
    if os.environ.get("PLUGIN_MULTIPLEX_GRPC"):
        fields.append("false")
    os.write(1, ("|".join(fields) + "\n").encode())
    parent = os.getppid()
    while not stop.wait(0.5):
        if os.getppid() != parent:
            break
    server.stop(0.5).wait()
    for leftover in (os.unlink, lambda _: os.rmdir(folder)):
        try:
            leftover(path)
        except OSError:
            pass
    # Streams and call-backs of a host that is gone must not keep the process.
    os._exit(0)
