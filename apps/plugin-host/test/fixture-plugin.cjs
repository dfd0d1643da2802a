#!/usr/bin/env node
'use strict';
// A complete plugin written against the wire alone, with one behaviour per misdeed. Its plugin.json "config" says which:
// {subscriptions, manifest, tools, answers: {port: answer}, listen: {...}}; see `behave` for the answers.
const { spawn } = require('node:child_process');
const { appendFileSync, mkdtempSync, writeSync } = require('node:fs');
const { createRequire } = require('node:module');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

const { env } = process;
const AsyncFunction = (async () => {}).constructor;
/** Runs a function's body, for what no other behaviour covers. */
const run = (body, question) => new AsyncFunction('require', 'question', body)(require, question);
const config = JSON.parse(env.CODEDOCK_PLUGIN_CONFIG || '{}');
const load = createRequire(`${config.root}/package.json`);
const grpc = load('@grpc/grpc-js');
const loader = load('@grpc/proto-loader');
load('reflect-metadata');
const x509 = load('@peculiar/x509');
const protoRoot = join(config.root, 'libs/proto/proto');
const packages = grpc.loadPackageDefinition(
  loader.loadSync(['codedock/plugin/v1/plugin.proto', 'plugin/wire.proto', 'grpc/health/v1/health.proto'], {
    includeDirs: [protoRoot],
    defaults: true,
    enums: Number,
  }),
);
const { Plugin, Host } = packages.codedock.plugin.v1;
const unlimited = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };

async function identity(pem) {
  if (!pem) return undefined;
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=localhost',
    keys,
    signingAlgorithm: algorithm,
    extensions: [new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: 'localhost' }])],
  });
  const key = x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY');
  return {
    der: Buffer.from(certificate.rawData),
    cert: Buffer.from(certificate.toString('pem')),
    key: Buffer.from(key),
  };
}

async function main() {
  const hostPem = env.PLUGIN_CLIENT_CERT;
  const own = await identity(hostPem);
  const serverCredentials = own
    ? grpc.ServerCredentials.createSsl(Buffer.from(hostPem), [{ private_key: own.key, cert_chain: own.cert }], true)
    : grpc.ServerCredentials.createInsecure();
  const clientCredentials = own
    ? grpc.credentials.createSsl(Buffer.from(hostPem), own.key, own.cert)
    : grpc.credentials.createInsecure();
  const announced = new Map();
  let hostClient;
  let brokerStream;
  const server = new grpc.Server(unlimited);
  const callHost = (method, request) =>
    new Promise((resolve, reject) => {
      const done = (error, reply) => (error ? reject(error) : resolve(reply));
      if (hostClient[method]) return hostClient[method](request, done);
      // A method that no proto of ours names.
      const empty = () => Buffer.alloc(0);
      hostClient.makeUnaryRequest(`/codedock.plugin.v1.Host/${method}`, empty, empty, {}, done);
    });

  const noteCancel = (call, behaviour) => {
    if (behaviour.noteCancel) call.on('cancelled', () => appendFileSync(behaviour.noteCancel, 'cancelled\n'));
  };

  async function behave(envelope) {
    const answer = config.answers?.[envelope.type] ?? {};
    if (answer.noteAsked) appendFileSync(answer.noteAsked, `${envelope.type}\n`);
    if (answer.log) writeSync(2, `${JSON.stringify({ '@level': 'info', '@message': answer.log })}\n`);
    if (answer.dropBroker) brokerStream.end();
    if (answer.hang) await new Promise(() => {});
    if (answer.spin) for (;;);
    if (answer.sleepMs) await new Promise((resolve) => setTimeout(resolve, answer.sleepMs));
    if (answer.exit !== undefined) process.exit(answer.exit);
    if (answer.throws) throw new Error(answer.throws);
    if (answer.run) return { ...envelope, reason: String(await run(answer.run, JSON.parse(envelope.payload))) };
    let payload = envelope.payload;
    if (answer.append) {
      const value = JSON.parse(payload);
      payload = Buffer.from(JSON.stringify({ ...value, content: `${value.content}${answer.append}` }));
    }
    if (answer.payload !== undefined)
      payload = Buffer.from(typeof answer.payload === 'string' ? answer.payload : JSON.stringify(answer.payload));
    let { context } = envelope;
    if (answer.remember)
      context = Buffer.from(JSON.stringify({ ...JSON.parse(context.length ? context : '{}'), ...answer.remember }));
    if (answer.call) {
      const outcome = await callHost(answer.call.method, {
        sessionId: envelope.sessionId,
        runId: envelope.runId,
        ...answer.call.request,
        ...(answer.call.key ? { key: { sessionId: envelope.sessionId, ...answer.call.key } } : {}),
      }).then(
        (reply) => ({ reply }),
        (error) => ({ error: error.details, code: error.code }),
      );
      return { ...envelope, payload, context, reason: JSON.stringify(outcome) };
    }
    return { ...envelope, payload, context, type: answer.type ?? envelope.type, reason: answer.reason ?? '' };
  }

  const plugin = {
    bootstrap: async (call, callback) => {
      try {
        if (config.bootstrap?.exit !== undefined) process.exit(config.bootstrap.exit);
        if (config.bootstrap?.hang) return;
        const deadline = Date.now() + 5000;
        while (!announced.has(call.request.hostServerId)) {
          if (Date.now() > deadline) throw new Error('the host announced nothing');
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        const info = announced.get(call.request.hostServerId);
        hostClient = new Host(`unix:${info.address}`, clientCredentials, {
          ...unlimited,
          'grpc.default_authority': 'localhost',
          'grpc.ssl_target_name_override': 'localhost',
        });
        for (const tool of config.tools ?? []) {
          await callHost('registerMethod', {
            ...tool,
            parametersSchema: Buffer.from(JSON.stringify(tool.schema ?? { type: 'object' })),
          });
        }
        callback(null, {
          name: 'fixture',
          version: '1.2.3',
          subscriptions: config.subscriptions ?? [],
          ...config.manifest,
        });
      } catch (error) {
        callback({ code: grpc.status.UNKNOWN, details: error.details ?? error.message });
      }
    },
    onEvent: (call, callback) => {
      const answer = config.answers?.[call.request.type] ?? {};
      noteCancel(call, answer);
      if (answer.deadline) return callback(null, { ...call.request, reason: String(call.getDeadline() - Date.now()) });
      behave(call.request).then(
        (reply) => callback(null, reply),
        (error) => callback({ code: grpc.status.UNKNOWN, details: error.message }),
      );
    },
    executeMethod: async (call, callback) => {
      const behaviour = config.execute ?? {};
      const { name } = call.request;
      if (!(config.tools ?? []).some((tool) => tool.name === name))
        return callback({ code: grpc.status.NOT_FOUND, details: `there is no tool ${name}` });
      noteCancel(call, behaviour);
      if (behaviour.noteAsked) appendFileSync(behaviour.noteAsked, `${name}\n`);
      if (behaviour.hang) return;
      if (behaviour.exit !== undefined) process.exit(behaviour.exit);
      if (behaviour.run) await run(behaviour.run);
      if (behaviour.sleepMs) await new Promise((resolve) => setTimeout(resolve, behaviour.sleepMs));
      callback(null, {
        success: true,
        output: Buffer.from(
          JSON.stringify({ name: call.request.name, arguments: JSON.parse(String(call.request.arguments) || '{}') }),
        ),
        error: '',
      });
    },
  };
  if (!config.noPluginService) server.addService(Plugin.service, plugin);
  if (!config.noHealth) {
    server.addService(packages.grpc.health.v1.Health.service, {
      check: (_, callback) => {
        if (config.health?.exit !== undefined) process.exit(config.health.exit);
        if (!config.health?.hang) callback(null, { status: config.health?.status ?? 1 });
      },
    });
  }
  server.addService(packages.plugin.GRPCBroker.service, {
    startStream: (call) => {
      brokerStream = call;
      call.on('data', (info) => announced.set(info.serviceId, info));
      call.on('error', () => {});
      call.on('end', () => call.end());
    },
  });
  if (!config.shutdown?.lacks) {
    server.addService(packages.plugin.GRPCController.service, {
      shutdown: (_, callback) => {
        if (config.shutdown?.hang) return;
        callback(null, {});
        if (!config.shutdown?.ignore) setTimeout(() => process.exit(0), 10);
      },
    });
  }
  if (config.grandchild) spawn('/bin/sh', ['-c', `sleep 600; : ${config.grandchild}`], { stdio: 'inherit' });
  const socket = join(mkdtempSync(join(env.PLUGIN_UNIX_SOCKET_DIR || tmpdir(), 'p')), 's');
  await new Promise((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, serverCredentials, (error) => (error ? reject(error) : resolve())),
  );
  const der = config.wrongCertificate ? (await identity(hostPem)).der : own?.der;
  writeSync(1, `1|1|unix|${socket}|grpc|${der ? der.toString('base64').replace(/=+$/, '') : ''}\n`);
}

process.on('SIGINT', () => {});
main().catch((error) => {
  writeSync(2, `${error.stack}\n`);
  process.exit(1);
});
