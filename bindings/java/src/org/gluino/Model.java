package org.gluino;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A loaded network. Any number of threads may call it at once, on the same weights.
 *
 * <pre>{@code
 * try (Model net = Model.load(Path.of("net-symbol.json"))) {
 *   Tensor y = net.predict(Tensor.of(x, 1, 512)).get(0);
 * }
 * }</pre>
 */
public final class Model implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  /** What is known of an input or output before anything runs. */
  public static final class Value {
    public final String name;
    /** null: not known before the call. */
    public final DType dtype;
    /** -1: an extent that may change from call to call; null: not known before the call. */
    public final long[] shape;

    Value(String name, DType dtype, long[] shape) {
      this.name = name;
      this.dtype = dtype;
      this.shape = shape;
    }
  }

  private interface Tell {
    int call(long index, Pointer info);
  }

  private final long handle;
  private final int numOutputs;
  private final Cleaner.Cleanable cleanable;

  private Model(long handle) {
    this.handle = handle;
    // Handles are never given out twice, so one that was closed does no harm.
    this.cleanable = CLEANER.register(this, () -> Native.gluino_model_free(handle));
    LongByReference count = new LongByReference();
    Native.check(Native.gluino_model_num_outputs(handle, count));
    this.numOutputs = (int) count.getValue();
  }

  /** A graph, as net-symbol.json, with the only parameters beside it, or a model in one file. */
  public static Model load(Path path) {
    return load(path, null);
  }
  public static Model load(Path path, Path params) {
    LongByReference handle = new LongByReference();
    Native.check(Native.gluino_model_load(path.toString(), params == null ? null : params.toString(), null, handle));
    return new Model(handle.getValue());
  }
  /** The bytes of a graph and of its parameters, or those of a one-file model and null. */
  public static Model fromBytes(byte[] graph, byte[] params) {
    LongByReference handle = new LongByReference();
    Native.check(Native.gluino_model_load_memory(graph, graph.length, params, params == null ? 0 : params.length, null, handle));
    return new Model(handle.getValue());
  }

  public List<Value> inputs() {
    LongByReference count = new LongByReference();
    Native.check(Native.gluino_model_num_inputs(handle, count));
    return values(count.getValue(), (index, info) -> Native.gluino_model_input(handle, index, info));
  }
  public List<Value> outputs() {
    return values(numOutputs, (index, info) -> Native.gluino_model_output(handle, index, info));
  }
  private static List<Value> values(long count, Tell tell) {
    List<Value> all = new ArrayList<>();
    Memory info = new Memory(Native.VALUE_BYTES);
    for (long i = 0; i < count; ++i) {
      Native.check(tell.call(i, info));
      all.add(new Value(Native.text(info.getPointer(0)), DType.of(info.getInt(8)), Native.shape(info, 16, info.getInt(12))));
    }
    return all;
  }

  /** Runs the network; inputs in the order of {@link #inputs()}. */
  public List<Tensor> predict(Tensor... inputs) {
    long bytes = 0;
    for (Tensor t : inputs) bytes += aligned(t.byteCount());
    // One piece of memory: descriptions, results, elements.
    long results = (long) Native.BUFFER_BYTES * Math.max(1, inputs.length), elements = results + aligned(8L * numOutputs + 8);
    Memory memory = new Memory(elements + bytes + 8);
    long next = elements;
    for (int i = 0; i < inputs.length; ++i) {
      Pointer place = memory.share(next);
      inputs[i].writeTo(place);
      inputs[i].describe(memory, (long) Native.BUFFER_BYTES * i, place);
      next += aligned(inputs[i].byteCount());
    }
    try {
      Native.check(Native.gluino_model_predict(handle, memory, inputs.length, memory.share(results), numOutputs));
    } finally {
      Reference.reachabilityFence(this);
    }
    long[] arrays = memory.getLongArray(results, numOutputs);
    List<Tensor> outputs = new ArrayList<>(numOutputs);
    for (long array : arrays) outputs.add(Tensor.take(array, memory));
    return outputs;
  }
  private static long aligned(long bytes) {
    return (bytes + 63) / 64 * 64;
  }

  /** Gives the memory back. Calls under way in other threads come to their end. */
  @Override
  public void close() {
    cleanable.clean();
  }
}
