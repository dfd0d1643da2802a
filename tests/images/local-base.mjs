import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

/** What a plugin-host and a shell plugin need beside Node, and what npm's scripts need. */
const runtimePrograms = ['sh', 'env', 'grep', 'sleep', 'cat'];
const buildPrograms = [
  ...runtimePrograms,
  'cp',
  'mv',
  'rm',
  'mkdir',
  'ls',
  'uname',
  'chmod',
  'dirname',
  'basename',
  'sed',
  'readlink',
];

const find = (program) =>
  process.env.PATH.split(delimiter)
    .map((folder) => join(folder, program))
    .find((file) => existsSync(file));

/**
 * Makes two images from the programs of this machine, without any registry: `runtime` with Node and a shell, `build`
 * with npm as well. They stand in for the Debian images that the Dockerfile names.
 */
export function makeLocalBases({ runtime, build }, buildah) {
  makeBase(runtime, runtimePrograms, false, buildah);
  makeBase(build, buildPrograms, true, buildah);
}

function makeBase(tag, programs, withNpm, buildah) {
  const folder = mkdtempSync(join(tmpdir(), 'codedock-base-'));
  try {
    const rootfs = join(folder, 'rootfs');
    for (const name of ['usr/bin', 'usr/lib', 'usr/sbin', 'usr/lib64', 'tmp', 'etc', 'root'])
      mkdirSync(join(rootfs, name), { recursive: true });
    for (const name of ['bin', 'lib', 'sbin', 'lib64']) symlinkSync(`usr/${name}`, join(rootfs, name));
    chmodSync(join(rootfs, 'tmp'), 0o1777);
    writeFileSync(join(rootfs, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/tmp:/bin/sh\n');
    writeFileSync(join(rootfs, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
    writeFileSync(join(rootfs, 'etc/nsswitch.conf'), 'hosts: files dns\n');
    install(rootfs, process.execPath, 'usr/bin/node');
    for (const program of programs) install(rootfs, find(program), `usr/bin/${program}`);
    cpSync(find('tini-static'), join(rootfs, 'usr/bin/tini-static'));
    // Names are looked up by libraries that no ldd shows.
    for (const library of ['libnss_files.so.2', 'libnss_dns.so.2', 'libresolv.so.2']) installLibrary(rootfs, library);
    if (existsSync('/etc/ssl/certs/ca-certificates.crt')) {
      mkdirSync(join(rootfs, 'etc/ssl/certs'), { recursive: true });
      cpSync('/etc/ssl/certs/ca-certificates.crt', join(rootfs, 'etc/ssl/certs/ca-certificates.crt'), {
        dereference: true,
      });
    }
    if (withNpm) {
      const npm = join(dirname(realpathSync(find('npm'))), '..');
      cpSync(npm, join(rootfs, 'usr/lib/npm'), { recursive: true });
      symlinkSync('../lib/npm/bin/npm-cli.js', join(rootfs, 'usr/bin/npm'));
      symlinkSync('../lib/npm/bin/npx-cli.js', join(rootfs, 'usr/bin/npx'));
    }
    writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\nCOPY rootfs/ /\n');
    buildah(['build', '--format', 'docker', '--timestamp', '0', '-t', tag, folder]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A program with the libraries that the loader gives it. */
function install(rootfs, file, target) {
  if (file === undefined) throw new Error(`${target} is not on the PATH of this machine, so no base image can be made`);
  const source = realpathSync(file);
  cpSync(source, join(rootfs, target));
  if (readFileSync(source).subarray(0, 4).toString('latin1') !== '\x7fELF') return;
  for (const library of execFileSync('ldd', [source], { encoding: 'utf8' }).match(/\/\S+/g) ?? []) {
    if (library.startsWith('/')) copyLibrary(rootfs, library.replace(/:$/, ''));
  }
}

function copyLibrary(rootfs, library) {
  // The base's /lib and /lib64 are links into /usr, as Debian's are.
  const target = join(rootfs, library.startsWith('/usr/') ? library : join('/usr', library));
  mkdirSync(dirname(target), { recursive: true });
  if (!existsSync(target)) cpSync(realpathSync(library), target);
}

function installLibrary(rootfs, name) {
  const line = execFileSync('ldconfig', ['-p'], { encoding: 'utf8', env: { PATH: '/usr/sbin:/sbin' } })
    .split('\n')
    .find((entry) => entry.includes(`${name} `));
  const file = line?.split('=> ')[1];
  if (file) copyLibrary(rootfs, file);
}
