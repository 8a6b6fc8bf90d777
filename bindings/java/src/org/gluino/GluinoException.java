package org.gluino;

/** What went wrong, with the code of c_api.h and what to do. */
public final class GluinoException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final String code;
  private final String hint;

  GluinoException(String code, String message, String hint) {
    super(message);
    this.code = code;
    this.hint = hint;
  }

  /** As in c_api.h: "GLUINO_ERROR_SHAPE". */
  public String code() {
    return code;
  }

  /** What to do; empty where the message says it all. */
  public String hint() {
    return hint;
  }
}
