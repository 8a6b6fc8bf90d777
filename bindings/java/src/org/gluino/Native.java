package org.gluino;

import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;

/** The functions of c_api.h, and the layout of its structures. */
final class Native {
  static final int MAX_AXES = 32;
  /** gluino_buffer: data, bytes, dtype, ndim, shape, strides. */
  static final int BUFFER_BYTES = 24 + 8 * MAX_AXES + 8;
  /** gluino_value_info: name, dtype, ndim, shape. */
  static final int VALUE_BYTES = 16 + 8 * MAX_AXES;
  static final int MEMORY_BYTES = 48;

  static {
    String folder = System.getProperty("gluino.lib", System.getenv("GLUINO_LIB"));
    if (folder != null) NativeLibrary.addSearchPath("gluino_c", folder);
    com.sun.jna.Native.register(Native.class, "gluino_c");
  }

  private Native() {}

  static native Pointer gluino_version();
  static native Pointer gluino_status_name(int status);
  static native Pointer gluino_last_error_message();
  static native Pointer gluino_last_error_hint();
  static native int gluino_model_load(String path, String params, Pointer options, LongByReference model);
  static native int gluino_model_load_memory(byte[] graph, long graphBytes, byte[] params, long paramsBytes, Pointer options, LongByReference model);
  static native int gluino_model_free(long model);
  static native int gluino_model_num_inputs(long model, LongByReference count);
  static native int gluino_model_num_outputs(long model, LongByReference count);
  static native int gluino_model_input(long model, long index, Pointer info);
  static native int gluino_model_output(long model, long index, Pointer info);
  static native int gluino_model_predict(long model, Pointer inputs, long numInputs, Pointer outputs, long numOutputs);
  static native int gluino_array_create(int dtype, int ndim, Pointer shape, Pointer data, long bytes, LongByReference array);
  static native int gluino_array_free(long array);
  static native int gluino_array_info(long array, Pointer info);
  static native int gluino_invoke(
      String name, Pointer inputs, long numInputs, Pointer keys, Pointer values, long numAttributes, Pointer outputs, LongByReference numOutputs);
  static native int gluino_set_num_threads(int threads);
  static native int gluino_memory_statistics(int device, Pointer statistics);

  static String text(Pointer pointer) {
    return pointer == null ? "" : pointer.getString(0, "UTF-8");
  }

  static void check(int status) {
    if (status != 0) throw new GluinoException(text(gluino_status_name(status)), text(gluino_last_error_message()), text(gluino_last_error_hint()));
  }

  /** Extents at `offset`; null where the number of axes is not known. */
  static long[] shape(Pointer structure, long offset, int ndim) {
    return ndim < 0 ? null : structure.getLongArray(offset, ndim);
  }

  static Memory longs(long[] values) {
    Memory memory = new Memory(8L * Math.max(1, values.length));
    memory.write(0, values, 0, values.length);
    return memory;
  }
}
