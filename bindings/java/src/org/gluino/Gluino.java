package org.gluino;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Operators by name, settings and statistics. */
public final class Gluino {
  private Gluino() {}

  public static String version() {
    return Native.text(Native.gluino_version());
  }
  /** Threads that one operator may use; many callers at once run best with 1. */
  public static void setNumThreads(int threads) {
    Native.check(Native.gluino_set_num_threads(threads));
  }

  /** How many models and arrays are open, and how many bytes they take. */
  public static final class Statistics {
    public final long live, peak, cached, allocations, models, arrays;

    Statistics(long[] s) {
      live = s[0];
      peak = s[1];
      cached = s[2];
      allocations = s[3];
      models = s[4];
      arrays = s[5];
    }
  }
  public static Statistics memory() {
    Memory memory = new Memory(Native.MEMORY_BYTES);
    Native.check(Native.gluino_memory_statistics(0, memory));
    return new Statistics(memory.getLongArray(0, 6));
  }

  /** Any operator by its name in MXNet, with attributes as files spell them: {@code Map.of("axis", "(0, 1)")}. */
  public static List<Tensor> invoke(String name, Map<String, String> attributes, Tensor... inputs) {
    long[] handles = new long[inputs.length];
    List<Memory> texts = new ArrayList<>();
    Memory keys = pointers(attributes.keySet(), texts), values = pointers(attributes.values(), texts);
    try {
      for (int i = 0; i < inputs.length; ++i) handles[i] = array(inputs[i]);
      Memory given = Native.longs(handles);
      LongByReference count = new LongByReference(1);
      for (long room = 1; ; room = count.getValue()) {
        Memory outputs = new Memory(8 * room);
        count.setValue(room);
        int status = Native.gluino_invoke(name, given, inputs.length, keys, values, attributes.size(), outputs, count);
        if (count.getValue() > room) continue;
        Native.check(status);
        List<Tensor> results = new ArrayList<>();
        Memory info = new Memory(Native.BUFFER_BYTES);
        for (long array : outputs.getLongArray(0, (int) count.getValue())) results.add(Tensor.take(array, info));
        return results;
      }
    } finally {
      for (long handle : handles) if (handle != 0) Native.gluino_array_free(handle);
    }
  }

  private static long array(Tensor t) {
    Memory data = new Memory(t.byteCount() + 1L);
    t.writeTo(data);
    LongByReference handle = new LongByReference();
    long[] shape = t.shape();
    Native.check(Native.gluino_array_create(t.dtype().number, shape.length, Native.longs(shape), data, t.byteCount(), handle));
    return handle.getValue();
  }

  private static Memory pointers(Iterable<String> strings, List<Memory> keep) {
    List<Pointer> list = new ArrayList<>();
    for (String s : strings) {
      Memory text = new Memory(s.getBytes(StandardCharsets.UTF_8).length + 1L);
      text.setString(0, s, "UTF-8");
      keep.add(text);
      list.add(text);
    }
    Memory memory = new Memory(8L * (list.size() + 1));
    for (int i = 0; i < list.size(); ++i) memory.setPointer(8L * i, list.get(i));
    return memory;
  }
}
