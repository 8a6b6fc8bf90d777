'use strict';
// node example.js net-symbol.json
const {Model} = require('.');

async function main() {
  const net = Model.load(process.argv[2]);
  const [input] = net.inputs;
  const shape = input.shape.map((extent) => (extent < 0 ? 2 : extent)); // free extents: two
  const data = new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(0.5);
  const calls = await Promise.all(Array.from({length: 8}, () => net.predict({data, shape})));
  const [output] = calls[0];
  console.log(`${net.outputs[0].name} ${JSON.stringify(output.shape)}: ${Array.from(output.data.slice(0, 5))}`);
  net.close();
}
main();
