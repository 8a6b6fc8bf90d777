package org.gluino;

/** Element types, by the numbers of MXNet's files. */
public enum DType {
  FLOAT32(0, 4), FLOAT64(1, 8), FLOAT16(2, 2), UINT8(3, 1), INT32(4, 4), INT8(5, 1), INT64(6, 8), BOOL(7, 1), BFLOAT16(12, 2);

  final int number;
  final int bytes;

  DType(int number, int bytes) {
    this.number = number;
    this.bytes = bytes;
  }

  static DType of(int number) {
    for (DType dtype : values()) if (dtype.number == number) return dtype;
    return null;
  }
}
