/** Elements in row-major order. bool comes as Uint8Array; float16 and bfloat16 as the bits of their elements in Uint16Array. */
export type TensorData =
  | Float32Array | Float64Array | Int32Array | Int8Array | Uint8Array | Uint8ClampedArray | BigInt64Array | Uint16Array;
export type DType =
  | 'float32' | 'float64' | 'float16' | 'bfloat16' | 'int32' | 'int8' | 'uint8' | 'int64' | 'bool';

export interface Tensor {
  data: TensorData;
  shape: number[];
  /** Follows from the kind of typed array where it is left out. */
  dtype?: DType;
}

export interface Value {
  name: string;
  /** Left out where it is not known before the call. */
  dtype?: DType;
  /** -1: an extent that may change from call to call; null: not known before the call. */
  shape: number[] | null;
}

/** One tensor, a list in the order of `inputs`, or tensors by name. */
export type Inputs = Tensor | Tensor[] | Record<string, Tensor>;

export class GluinoError extends Error {
  /** As in c_api.h: 'GLUINO_ERROR_SHAPE'. */
  readonly code: string;
  /** What to do; '' where the message says it all. */
  readonly hint: string;
}

export class Model {
  /** A `<name>-symbol.json` with the parameters beside it or at `params`, or a model in one file. */
  static load(file: string, params?: string | null): Model;
  static fromBuffer(graph: Uint8Array | string, params?: Uint8Array | null): Model;
  readonly inputs: Value[];
  readonly outputs: Value[];
  /** On this thread. */
  run(inputs: Inputs): Required<Tensor>[];
  /** On a thread of Node's pool; many at a time share the weights. */
  predict(inputs: Inputs): Promise<Required<Tensor>[]>;
  /** Gives the memory back; otherwise that happens when the garbage collector finds the model. */
  close(): void;
}

/** Any operator by its name in MXNet: invoke('sum', [x], {axis: [0, 1]}). */
export function invoke(name: string, inputs: Tensor[], attributes?: Record<string, unknown>): Required<Tensor>[];
/** Threads that one operator may use. */
export function setNumThreads(threads: number): void;
export function memory(): { live: number; peak: number; cached: number; allocations: number; models: number; arrays: number };
export const version: string;
