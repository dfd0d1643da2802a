import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from './command.mjs';
import { sourceFingerprint } from './fingerprint.mjs';
import { root } from './root.mjs';

const [major, minor] = process.versions.node.split('.').map(Number);

/**
 * Makes the clone ready to run: refuses a Node that is too old, installs the dependencies of the lock file when they are
 * missing or older than it, builds when a source changed since the last build.
 */
export async function prepare({ quiet = false } = {}) {
  if (major < 20 || (major === 20 && minor < 19)) {
    throw new Error(
      `Node ${process.versions.node} is too old: CodeDock needs 20.19 or newer. Install a current Node and try again.`,
    );
  }
  if (dependenciesMissing()) {
    announce('installing the dependencies (once; takes a minute or two)', quiet);
    await runCommand('npm', ['ci', '--no-audit', '--no-fund'], { label: 'npm ci' });
  }
  const stamp = join(root, '.codedock', 'build.stamp');
  const fingerprint = sourceFingerprint();
  if (
    !existsSync(stamp) ||
    readFileSync(stamp, 'utf8') !== fingerprint ||
    !existsSync(join(root, 'apps/gateway/dist/main.js'))
  ) {
    announce('building', quiet);
    await runCommand('npm', ['run', '--silent', 'build'], { label: 'npm run build' });
    mkdirSync(join(root, '.codedock'), { recursive: true });
    writeFileSync(stamp, fingerprint);
  }
}

function announce(text, quiet) {
  if (!quiet) console.log(`codedock  ${text} …`);
}

function dependenciesMissing() {
  const installed = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installed)) return true;
  return statSync(join(root, 'package-lock.json')).mtimeMs > statSync(installed).mtimeMs && lockDiffers(installed);
}

// A checkout touches the lock file's time without changing it, so time alone would reinstall for nothing.
function lockDiffers(installed) {
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
  const present = JSON.parse(readFileSync(installed, 'utf8')).packages;
  return Object.entries(wanted).some(([path, entry]) => {
    if (path === '' || entry.link || entry.optional || !path.startsWith('node_modules/')) return false;
    return present[path]?.version !== entry.version;
  });
}
