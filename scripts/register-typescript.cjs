'use strict';
/**
 * Lets plain Node run the workspace's TypeScript sources without a build:
 *   node -r ./scripts/register-typescript.cjs apps/gateway/src/main.ts
 * `./x.js` resolves to `./x.ts` and `@codedock/x` to libs/x/src, exactly as under Jest.
 */
const { existsSync, readFileSync } = require('node:fs');
const Module = require('node:module');
const { dirname, join, resolve } = require('node:path');
const { transformSync } = require('@swc/core');

const root = resolve(__dirname, '..');

const toSource = (request, parent) => {
  if (request === '@codedock/plugin-sdk/testing') return join(root, 'libs/plugin-sdk/src/testing/index.ts');
  const workspace = /^@codedock\/([^/]+)$/.exec(request);
  if (workspace) {
    const source = join(root, 'libs', workspace[1], 'src/index.ts');
    return existsSync(source) ? source : request;
  }
  if (/^\.{1,2}\/.*\.js$/.test(request) && parent?.filename?.endsWith('.ts')) {
    const source = `${resolve(dirname(parent.filename), request).slice(0, -3)}.ts`;
    if (existsSync(source)) return source;
  }
  return request;
};

const resolveFilename = Module._resolveFilename;
Module._resolveFilename = function (request, parent, ...rest) {
  return resolveFilename.call(this, toSource(request, parent), parent, ...rest);
};

Module._extensions['.ts'] = (module, filename) => {
  const { code } = transformSync(readFileSync(filename, 'utf8'), {
    filename,
    configFile: false,
    swcrc: false,
    jsc: {
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
      target: 'es2022',
      keepClassNames: true,
    },
    module: { type: 'commonjs' },
    sourceMaps: 'inline',
  });
  module._compile(code, filename);
};
