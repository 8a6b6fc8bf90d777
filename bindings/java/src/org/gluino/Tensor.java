package org.gluino;

import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** Numbers in row-major order and their shape: a value of Java's, with nothing to close. */
public final class Tensor {
  private final DType dtype;
  private final long[] shape;
  private final ByteBuffer data;

  private Tensor(DType dtype, long[] shape, ByteBuffer data) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  private static ByteBuffer room(long bytes) {
    if (bytes > Integer.MAX_VALUE) throw new IllegalArgumentException(bytes + " bytes are more than a tensor of Java's can have");
    return ByteBuffer.allocate((int) bytes).order(ByteOrder.nativeOrder());
  }
  private static ByteBuffer room(DType dtype, long[] shape, int elements) {
    long wanted = 1;
    for (long extent : shape) wanted = Math.multiplyExact(wanted, extent);
    if (wanted != elements) throw new IllegalArgumentException(elements + " numbers do not fill shape " + Arrays.toString(shape));
    return room((long) elements * dtype.bytes);
  }

  public static Tensor of(float[] values, long... shape) {
    ByteBuffer data = room(DType.FLOAT32, shape, values.length);
    data.asFloatBuffer().put(values);
    return new Tensor(DType.FLOAT32, shape.clone(), data);
  }
  public static Tensor of(double[] values, long... shape) {
    ByteBuffer data = room(DType.FLOAT64, shape, values.length);
    data.asDoubleBuffer().put(values);
    return new Tensor(DType.FLOAT64, shape.clone(), data);
  }
  public static Tensor of(int[] values, long... shape) {
    ByteBuffer data = room(DType.INT32, shape, values.length);
    data.asIntBuffer().put(values);
    return new Tensor(DType.INT32, shape.clone(), data);
  }
  public static Tensor of(long[] values, long... shape) {
    ByteBuffer data = room(DType.INT64, shape, values.length);
    data.asLongBuffer().put(values);
    return new Tensor(DType.INT64, shape.clone(), data);
  }
  /** Of any dtype, from its bytes in the machine's order. */
  public static Tensor of(DType dtype, byte[] bytes, long... shape) {
    ByteBuffer data = room(dtype, shape, bytes.length / dtype.bytes);
    data.put(bytes).rewind();
    return new Tensor(dtype, shape.clone(), data);
  }

  public DType dtype() {
    return dtype;
  }
  public long[] shape() {
    return shape.clone();
  }
  public float[] floats() {
    need(DType.FLOAT32);
    float[] values = new float[data.capacity() / 4];
    view().asFloatBuffer().get(values);
    return values;
  }
  public double[] doubles() {
    need(DType.FLOAT64);
    double[] values = new double[data.capacity() / 8];
    view().asDoubleBuffer().get(values);
    return values;
  }
  public int[] ints() {
    need(DType.INT32);
    int[] values = new int[data.capacity() / 4];
    view().asIntBuffer().get(values);
    return values;
  }
  public long[] longs() {
    need(DType.INT64);
    long[] values = new long[data.capacity() / 8];
    view().asLongBuffer().get(values);
    return values;
  }
  /** The elements as they are in memory, whatever their dtype. */
  public byte[] bytes() {
    return data.array().clone();
  }

  private ByteBuffer view() {
    return data.duplicate().order(ByteOrder.nativeOrder());
  }
  private void need(DType wanted) {
    if (dtype != wanted) throw new IllegalStateException("the tensor is " + dtype + ", not " + wanted);
  }

  // ---- the C interface's side

  int byteCount() {
    return data.capacity();
  }
  void writeTo(Pointer memory) {
    memory.write(0, data.array(), 0, data.capacity());
  }
  /** As a gluino_buffer at `offset`, with the elements at `elements`. */
  void describe(Pointer buffers, long offset, Pointer elements) {
    if (shape.length > Native.MAX_AXES) throw new IllegalArgumentException(shape.length + " axes; at most " + Native.MAX_AXES + " are possible");
    buffers.setPointer(offset, elements);
    buffers.setLong(offset + 8, byteCount());
    buffers.setInt(offset + 16, dtype.number);
    buffers.setInt(offset + 20, shape.length);
    buffers.write(offset + 24, shape, 0, shape.length);
    buffers.setPointer(offset + 24 + 8L * Native.MAX_AXES, null);
  }
  /** Copies an array of the library's and frees it. */
  static Tensor take(long array, Pointer info) {
    try {
      Native.check(Native.gluino_array_info(array, info));
      ByteBuffer data = room(info.getLong(8));
      if (data.capacity() > 0) info.getPointer(0).read(0, data.array(), 0, data.capacity());
      return new Tensor(DType.of(info.getInt(16)), Native.shape(info, 24, info.getInt(20)), data);
    } finally {
      Native.gluino_array_free(array);
    }
  }

  @Override
  public String toString() {
    return dtype + Arrays.toString(shape);
  }
}
