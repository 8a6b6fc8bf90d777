'use strict';
// Microseconds of one call, the best of many rounds, beside ONNX Runtime's package where GLUINO_ORT names its folder and argv[3] a model.
const {Model} = require('.');

const CALLS = 2000;
const x = {data: new Float32Array(512), shape: [1, 512]};

async function best(call) {
  let least = Infinity;
  for (let round = 0; round < 15; ++round) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < CALLS; ++i) await call();
    least = Math.min(least, Number(process.hrtime.bigint() - start) / 1e3 / CALLS);
  }
  return least;
}

async function main() {
  const net = Model.load(process.argv[2]);
  let least = Infinity;
  for (let round = 0; round < 30; ++round) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < CALLS; ++i) net.run(x);
    least = Math.min(least, Number(process.hrtime.bigint() - start) / 1e3 / CALLS);
  }
  const rows = {'Node, run': least, 'Node, predict (a promise)': await best(() => net.predict(x))};
  if (process.env.GLUINO_ORT && process.argv[3]) {
    const ort = require(process.env.GLUINO_ORT);
    const session = await ort.InferenceSession.create(process.argv[3], {intraOpNumThreads: 1, interOpNumThreads: 1});
    const feeds = {[session.inputNames[0]]: new ort.Tensor('float32', x.data, x.shape)};
    rows['ONNX Runtime in Node (a promise)'] = await best(() => session.run(feeds));
  }
  console.log(JSON.stringify(rows));
}
main();
