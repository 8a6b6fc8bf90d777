'use strict';
// Gluino's exported networks in Node. index.d.ts says what everything takes and gives.
const path = require('node:path');
const addon = require(process.env.GLUINO_NODE_ADDON || path.join(__dirname, 'build', 'gluino.node'));

class GluinoError extends Error {
  constructor(cause) {
    super(cause.message);
    this.name = 'GluinoError';
    this.code = cause.code;
    this.hint = cause.hint;
  }
}

const asOwn = (error) => (error && typeof error.hint === 'string' ? new GluinoError(error) : error);

function checked(call) {
  try {
    return call();
  } catch (error) {
    throw asOwn(error);
  }
}

// Frees models that nobody closed.
const forgotten = new FinalizationRegistry((handle) => {
  try {
    addon.free(handle);
  } catch {
    // It was closed.
  }
});

const BRIEF = 0.1;  // milliseconds
const sizeOf = (inputs) => inputs.reduce((sum, input) => sum + ((input && input.data && input.data.byteLength) || 0), 0);

class Model {
  #handle;
  #names;

  constructor(handle) {
    this.#handle = handle;
    forgotten.register(this, handle, this);
    this.#names = addon.inputs(handle).map((input) => input.name);
  }

  static load(file, params = null) {
    return checked(() => new Model(addon.load(String(file), params === null ? null : String(params))));
  }
  static fromBuffer(graph, params = null) {
    return checked(() => new Model(addon.loadMemory(Buffer.from(graph), params === null ? null : Buffer.from(params))));
  }

  get inputs() {
    return checked(() => addon.inputs(this.#handle));
  }
  get outputs() {
    return checked(() => addon.outputs(this.#handle));
  }

  run(inputs) {
    return checked(() => addon.run(this.#handle, this.#inOrder(inputs)));
  }
  async predict(inputs) {
    const ordered = this.#inOrder(inputs);
    const bytes = sizeOf(ordered), isBrief = bytes <= this.#briefBytes, start = performance.now();
    try {
      return isBrief ? addon.run(this.#handle, ordered) : await addon.runAsync(this.#handle, ordered);
    } catch (error) {
      throw asOwn(error);
    } finally {
      this.#remember(bytes, isBrief, performance.now() - start);
    }
  }

  // Inputs of so many bytes take less than going to another thread and back; a call through the pool takes at least what it computes.
  #briefBytes = -1;
  #remember(bytes, isBrief, milliseconds) {
    if (milliseconds < BRIEF) this.#briefBytes = Math.max(bytes, this.#briefBytes);
    else if (isBrief && milliseconds > 5 * BRIEF) this.#briefBytes = -1;
  }

  close() {
    if (this.#handle === 0) return;
    const handle = this.#handle;
    this.#handle = 0;
    forgotten.unregister(this);
    checked(() => addon.free(handle));
  }

  #inOrder(inputs) {
    if (Array.isArray(inputs)) return inputs;
    if (ArrayBuffer.isView(inputs.data)) return [inputs];
    for (const name of Object.keys(inputs))
      if (!this.#names.includes(name)) throw new TypeError(`the model has no input '${name}'; it has ${this.#names.join(', ')}`);
    return this.#names.map((name) => inputs[name]);
  }
}
if (Symbol.dispose) Model.prototype[Symbol.dispose] = Model.prototype.close;

function invoke(name, inputs, attributes = {}) {
  const entries = Object.entries(attributes);
  const text = (value) => (Array.isArray(value) ? `(${value.join(', ')}${value.length === 1 ? ',' : ''})`
    : value === true ? 'True' : value === false ? 'False' : value === null ? 'None' : String(value));
  return checked(() => addon.invoke(name, inputs, entries.map(([key]) => key), entries.map(([, value]) => text(value))));
}

module.exports = {
  Model,
  GluinoError,
  invoke,
  setNumThreads: (threads) => checked(() => addon.setNumThreads(threads)),
  memory: () => checked(() => addon.memory()),
  version: addon.version,
};
