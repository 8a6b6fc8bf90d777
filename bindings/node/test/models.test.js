'use strict';
// The models of make_models.py, in the folder that GLUINO_TEST_MODELS names, give what Python computed.
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const {test} = require('node:test');
const gluino = require('..');

const folder = process.env.GLUINO_TEST_MODELS;
const KINDS = {float32: Float32Array, int32: Int32Array};

function readCases(name) {
  const cases = [];
  let current = {inputs: [], outputs: []};
  for (const line of fs.readFileSync(path.join(folder, `${name}.cases`), 'utf8').trim().split('\n')) {
    const [kind, , dtype, ndim, ...rest] = line.split(' ');
    if (kind === 'run') {
      cases.push(current);
      current = {inputs: [], outputs: []};
      continue;
    }
    const shape = rest.slice(0, Number(ndim)).map(Number);
    current[`${kind}s`].push({shape, data: KINDS[dtype].from(rest.slice(Number(ndim)).map(Number))});
  }
  return cases;
}

function assertClose(got, want) {
  assert.strictEqual(got.length, want.length);
  got.forEach((output, i) => {
    assert.deepStrictEqual(output.shape, want[i].shape);
    output.data.forEach((v, k) => assert.ok(Math.abs(v - want[i].data[k]) <= 1e-6, `${v} and ${want[i].data[k]}`));
  });
}

for (const name of ['mlp', 'conv', 'loop', 'embedding'])
  test(`${name} gives what Python computed`, async () => {
    const net = gluino.Model.load(path.join(folder, `${name}-symbol.json`));
    const cases = readCases(name);
    for (const {inputs, outputs} of cases) assertClose(net.run(inputs), outputs);
    // Many calls at a time on Node's threads, batches and lengths mixed.
    const calls = Array.from({length: 24}, (_, i) => cases[i % cases.length]);
    const results = await Promise.all(calls.map(({inputs}) => net.predict(inputs)));
    results.forEach((got, i) => assertClose(got, calls[i].outputs));
    const byName = Object.fromEntries(net.inputs.map(({name: input}, i) => [input, cases[0].inputs[i]]));
    assertClose(net.run(byName), cases[0].outputs);
    net.close();
  });

test('a model says what it takes and gives', () => {
  const net = gluino.Model.load(path.join(folder, 'mlp-symbol.json'));
  assert.deepStrictEqual(net.inputs, [{name: 'data', dtype: 'float32', shape: [-1, 8]}]);
  assert.deepStrictEqual(net.outputs[0].shape, [-1, 3]);
  net.close();
});

test('a model comes from memory too', () => {
  const read = (file) => fs.readFileSync(path.join(folder, file));
  const net = gluino.Model.fromBuffer(read('mlp-symbol.json'), read('mlp-0000.params'));
  const [{inputs, outputs}] = readCases('mlp');
  assertClose(net.run(inputs), outputs);
});

test('errors are exceptions with a code and a hint', async () => {
  assert.throws(() => gluino.Model.load('/nowhere-symbol.json'),
    (e) => e instanceof gluino.GluinoError && e.code === 'GLUINO_ERROR_SYSTEM' && e.message.includes('/nowhere-symbol.json'));
  const net = gluino.Model.load(path.join(folder, 'mlp-symbol.json'));
  const wrong = {data: new Float32Array(6), shape: [2, 3]};
  assert.throws(() => net.run(wrong), (e) => e instanceof gluino.GluinoError && e.code === 'GLUINO_ERROR_SHAPE');
  await assert.rejects(net.predict(wrong), (e) => e instanceof gluino.GluinoError && e.code === 'GLUINO_ERROR_SHAPE');
  assert.throws(() => net.run({data: new Float32Array(6), shape: [2, 8]}), {code: 'GLUINO_ERROR_TOO_SMALL'});
  assert.throws(() => net.run({data: [1, 2], shape: [2]}), TypeError);
  assert.throws(() => net.run({dato: wrong}), /no input 'dato'; it has data/);
  assert.throws(() => gluino.invoke('broadcast_ad', [wrong, wrong]), {hint: "did you mean 'broadcast_add'?"});
  net.close();
  net.close();
  assert.throws(() => net.run(wrong), {code: 'GLUINO_ERROR_HANDLE'});
});

test('operators are called by name', () => {
  const x = {data: Float32Array.of(1, 2, 3, 4), shape: [2, 2]};
  const [sum] = gluino.invoke('sum', [x], {axis: [1], keepdims: true});
  assert.deepStrictEqual([...sum.data], [3, 7]);
  assert.deepStrictEqual(sum.shape, [2, 1]);
  assert.strictEqual(gluino.invoke('split', [x], {num_outputs: 2}).length, 2);
});

test('nothing is left behind', () => {
  const before = gluino.memory();
  for (let i = 0; i < 20; ++i) {
    const net = gluino.Model.load(path.join(folder, 'mlp-symbol.json'));
    net.run(readCases('mlp')[0].inputs);
    net.close();
  }
  assert.strictEqual(gluino.memory().models, before.models);
  assert.strictEqual(gluino.memory().arrays, before.arrays);
});
