'use strict';
// Compiles the addon with the C compiler: against the installed library (pkg-config gluino_c), or GLUINO_INCLUDE and GLUINO_LIB.
const {execFileSync} = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

function nodeHeaders() {
  const beside = path.join(path.dirname(process.execPath), '..', 'include', 'node');
  if (fs.existsSync(path.join(beside, 'node_api.h'))) return beside;
  return require('node-api-headers').include_dir;
}

function libraryFlags() {
  const {GLUINO_INCLUDE: include, GLUINO_LIB: lib} = process.env;
  if (include && lib) return [`-I${include}`, `-L${lib}`, `-Wl,-rpath,${lib}`, '-lgluino_c'];
  try {
    return execFileSync('pkg-config', ['--cflags', '--libs', 'gluino_c'], {encoding: 'utf8'}).trim().split(/\s+/);
  } catch {
    throw new Error('Gluino was not found; install it so that pkg-config knows gluino_c, or set GLUINO_INCLUDE and GLUINO_LIB');
  }
}

const out = process.env.GLUINO_NODE_ADDON || path.join(__dirname, 'build', 'gluino.node');
fs.mkdirSync(path.dirname(out), {recursive: true});
execFileSync(process.env.CC || 'cc',
  ['-std=c99', '-Wall', '-Wextra', '-O2', '-fPIC', '-shared', `-I${nodeHeaders()}`, path.join(__dirname, 'addon.c'), '-o', out, ...libraryFlags()],
  {stdio: 'inherit'});
