/* From R's arrays, which are stored column by column, to Gluino's C interface and back. */
#include <gluino/c_api.h>
#include <stdlib.h>
#include <string.h>

#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

enum { MOST = 64 };

static SEXP named_list(int n, const char* const* names) {
  SEXP list = PROTECT(allocVector(VECSXP, n)), texts = PROTECT(allocVector(STRSXP, n));
  for (int i = 0; i < n; ++i) SET_STRING_ELT(texts, i, mkChar(names[i]));
  setAttrib(list, R_NamesSymbol, texts);
  UNPROTECT(2);
  return list;
}

static SEXP failure(const char* code, const char* message, const char* hint) {
  static const char* const names[] = {"code", "message", "hint"};
  SEXP list = PROTECT(named_list(3, names));
  SET_VECTOR_ELT(list, 0, mkString(code));
  SET_VECTOR_ELT(list, 1, mkString(message));
  SET_VECTOR_ELT(list, 2, mkString(hint));
  setAttrib(list, R_ClassSymbol, mkString("gluino_failure"));
  UNPROTECT(1);
  return list;
}
static SEXP last_failure(void) {
  return failure(gluino_status_name(gluino_last_error_code()), gluino_last_error_message(), gluino_last_error_hint());
}

/* ---- models */

static void finalize(SEXP pointer) {
  gluino_model* model = R_ExternalPtrAddr(pointer);
  if (!model) return;
  gluino_model_free(*model);
  free(model);
  R_ClearExternalPtr(pointer);
}

static gluino_model model_of(SEXP pointer) {
  gluino_model* model = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  return model ? *model : 0;
}

static SEXP load(SEXP path, SEXP params) {
  gluino_model* model = malloc(sizeof *model);
  if (!model) return failure("GLUINO_ERROR_MEMORY", "no memory left", "");
  if (!isString(path) || LENGTH(path) != 1 || (params != R_NilValue && (!isString(params) || LENGTH(params) != 1))) {
    free(model);
    return failure("GLUINO_ERROR_ARGUMENT", "a path is one text", "");
  }
  if (gluino_model_load(CHAR(STRING_ELT(path, 0)), params == R_NilValue ? NULL : CHAR(STRING_ELT(params, 0)), NULL, model) != GLUINO_OK) {
    free(model);
    return last_failure();
  }
  SEXP pointer = PROTECT(R_MakeExternalPtr(model, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, finalize, TRUE);
  UNPROTECT(1);
  return pointer;
}

static SEXP shape_value(const int64_t* shape, int32_t ndim) {
  if (ndim < 0) return R_NilValue;
  SEXP value = allocVector(INTSXP, ndim);
  for (int i = 0; i < ndim; ++i) INTEGER(value)[i] = shape[i] < 0 ? NA_INTEGER : (int)shape[i];
  return value;
}

static SEXP values(SEXP pointer, SEXP are_outputs) {
  static const char* const names[] = {"name", "dtype", "shape"};
  const gluino_model model = model_of(pointer);
  const int outputs = asLogical(are_outputs);
  size_t count;
  if ((outputs ? gluino_model_num_outputs : gluino_model_num_inputs)(model, &count) != GLUINO_OK) return last_failure();
  SEXP list = PROTECT(allocVector(VECSXP, (R_xlen_t)count));
  for (size_t i = 0; i < count; ++i) {
    gluino_value_info info;
    if ((outputs ? gluino_model_output : gluino_model_input)(model, i, &info) != GLUINO_OK) {
      UNPROTECT(1);
      return last_failure();
    }
    SEXP value = PROTECT(named_list(3, names));
    SET_VECTOR_ELT(value, 0, mkString(info.name));
    SET_VECTOR_ELT(value, 1, mkString(info.dtype == GLUINO_ANY_DTYPE ? "any" : gluino_dtype_name(info.dtype)));
    SET_VECTOR_ELT(value, 2, shape_value(info.shape, info.ndim));
    SET_VECTOR_ELT(list, (R_xlen_t)i, value);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return list;
}

/* ---- arrays. Elements of R's are visited in the order of the other side, row by row. */

typedef struct walk {
  int ndim;
  int64_t shape[GLUINO_MAX_AXES], strides[GLUINO_MAX_AXES], position[GLUINO_MAX_AXES];
  R_xlen_t offset;
} walk;

static void start(walk* w, const int64_t* shape, int ndim) {
  int64_t stride = 1;
  memset(w, 0, sizeof *w);
  w->ndim = ndim;
  for (int i = 0; i < ndim; ++i) {
    w->shape[i] = shape[i];
    w->strides[i] = stride;
    stride *= shape[i];
  }
}
static void step(walk* w) {
  for (int i = w->ndim - 1; i >= 0; --i) {
    w->offset += (R_xlen_t)w->strides[i];
    if (++w->position[i] < w->shape[i]) return;
    w->offset -= (R_xlen_t)(w->strides[i] * w->position[i]);
    w->position[i] = 0;
  }
}

/* Gives a text where the value cannot be an array. */
static const char* describe(SEXP value, gluino_buffer* b) {
  SEXP dim = getAttrib(value, R_DimSymbol);
  memset(b, 0, sizeof *b);
  switch (TYPEOF(value)) {
    case REALSXP: b->dtype = GLUINO_FLOAT32; break;
    case INTSXP: b->dtype = GLUINO_INT32; break;
    case LGLSXP: b->dtype = GLUINO_BOOL; break;
    default: return "an input must be an array of numbers or logical values";
  }
  b->ndim = dim == R_NilValue ? 1 : LENGTH(dim);
  if (b->ndim > GLUINO_MAX_AXES) return "an input has too many axes";
  for (int i = 0; i < b->ndim; ++i) b->shape[i] = dim == R_NilValue ? (int64_t)XLENGTH(value) : INTEGER(dim)[i];
  b->bytes = (size_t)XLENGTH(value) * gluino_dtype_bytes(b->dtype);
  return NULL;
}

/* Memory of R's that lives as long as the call. */
static void convert_input(SEXP value, gluino_buffer* b) {
  const R_xlen_t n = XLENGTH(value);
  walk w;
  start(&w, b->shape, b->ndim);
  b->data = R_alloc(b->bytes + 1, 1);
  for (R_xlen_t i = 0; i < n; ++i, step(&w)) {
    if (b->dtype == GLUINO_FLOAT32) ((float*)b->data)[i] = (float)REAL(value)[w.offset];
    if (b->dtype == GLUINO_INT32) ((int32_t*)b->data)[i] = INTEGER(value)[w.offset];
    if (b->dtype == GLUINO_BOOL) ((uint8_t*)b->data)[i] = LOGICAL(value)[w.offset] != 0;
  }
}

static const char* inputs_of(SEXP list, gluino_buffer* buffers) {
  if (TYPEOF(list) != VECSXP || LENGTH(list) > MOST) return "inputs are a list of at most 64 arrays";
  for (int i = 0; i < LENGTH(list); ++i) {
    const char* problem = describe(VECTOR_ELT(list, i), &buffers[i]);
    if (problem) return problem;
  }
  for (int i = 0; i < LENGTH(list); ++i) convert_input(VECTOR_ELT(list, i), &buffers[i]);
  return NULL;
}

static double element(const gluino_buffer* b, R_xlen_t i) {
  switch (b->dtype) {
    case GLUINO_FLOAT32: return ((const float*)b->data)[i];
    case GLUINO_FLOAT64: return ((const double*)b->data)[i];
    case GLUINO_INT8: return ((const int8_t*)b->data)[i];
    case GLUINO_UINT8:
    case GLUINO_BOOL: return ((const uint8_t*)b->data)[i];
    case GLUINO_INT32: return ((const int32_t*)b->data)[i];
    default: return (double)((const int64_t*)b->data)[i];
  }
}

/* A float32 array of the same values where R has no numbers like these. */
static gluino_array readable(gluino_array array, gluino_buffer* b) {
  static const char *const key = "dtype", *const value = "float32";
  gluino_array converted = 0;
  size_t one = 1;
  if (gluino_array_info(array, b) != GLUINO_OK) return array;
  if (b->dtype != GLUINO_FLOAT16 && b->dtype != GLUINO_BFLOAT16) return array;
  if (gluino_invoke("Cast", &array, 1, &key, &value, 1, &converted, &one) != GLUINO_OK) return array;
  gluino_array_free(array);
  gluino_array_info(converted, b);
  return converted;
}

/* An array of R's, with its dimensions; the other one is freed. */
static SEXP take(gluino_array array) {
  gluino_buffer b;
  array = readable(array, &b);
  const R_xlen_t n = (R_xlen_t)(b.bytes / gluino_dtype_bytes(b.dtype));
  const int type = b.dtype == GLUINO_BOOL ? LGLSXP : b.dtype == GLUINO_INT32 || b.dtype == GLUINO_INT8 || b.dtype == GLUINO_UINT8 ? INTSXP : REALSXP;
  SEXP value = PROTECT(allocVector(type, n)), dim = PROTECT(shape_value(b.shape, b.ndim));
  walk w;
  start(&w, b.shape, b.ndim);
  for (R_xlen_t i = 0; i < n; ++i, step(&w)) {
    if (type == REALSXP)
      REAL(value)[w.offset] = element(&b, i);
    else
      (type == LGLSXP ? LOGICAL(value) : INTEGER(value))[w.offset] = (int)element(&b, i);
  }
  if (b.ndim > 1) setAttrib(value, R_DimSymbol, dim);
  gluino_array_free(array);
  UNPROTECT(2);
  return value;
}

static SEXP take_all(const gluino_array* arrays, size_t count) {
  SEXP list = PROTECT(allocVector(VECSXP, (R_xlen_t)count));
  for (size_t i = 0; i < count; ++i) SET_VECTOR_ELT(list, (R_xlen_t)i, take(arrays[i]));
  UNPROTECT(1);
  return list;
}

static SEXP predict(SEXP pointer, SEXP list) {
  gluino_buffer inputs[MOST];
  gluino_array outputs[MOST];
  const gluino_model model = model_of(pointer);
  size_t count;
  const char* problem = inputs_of(list, inputs);
  if (problem) return failure("GLUINO_ERROR_ARGUMENT", problem, "");
  if (gluino_model_num_outputs(model, &count) != GLUINO_OK) return last_failure();
  if (count > MOST) count = MOST;
  if (gluino_model_predict(model, inputs, (size_t)LENGTH(list), outputs, count) != GLUINO_OK) return last_failure();
  return take_all(outputs, count);
}

static SEXP invoke(SEXP name, SEXP list, SEXP keys, SEXP texts) {
  gluino_buffer inputs[MOST];
  gluino_array arrays[MOST], outputs[MOST];
  const char *key_texts[MOST], *value_texts[MOST];
  size_t made = 0, count = MOST;
  const int attributes = keys == R_NilValue ? 0 : LENGTH(keys);
  gluino_status status = GLUINO_OK;
  const char* problem = !isString(name) || LENGTH(name) != 1 || attributes > MOST ? "an operator's name is one text" : inputs_of(list, inputs);
  if (problem) return failure("GLUINO_ERROR_ARGUMENT", problem, "");
  for (int i = 0; i < attributes; ++i) {
    key_texts[i] = CHAR(STRING_ELT(keys, i));
    value_texts[i] = CHAR(STRING_ELT(texts, i));
  }
  for (; status == GLUINO_OK && made < (size_t)LENGTH(list); made += status == GLUINO_OK) {
    const gluino_buffer* b = &inputs[made];
    status = gluino_array_create(b->dtype, b->ndim, b->shape, b->data, b->bytes, &arrays[made]);
  }
  if (status == GLUINO_OK)
    status = gluino_invoke(CHAR(STRING_ELT(name, 0)), arrays, made, key_texts, value_texts, (size_t)attributes, outputs, &count);
  while (made > 0) gluino_array_free(arrays[--made]);
  return status == GLUINO_OK ? take_all(outputs, count) : last_failure();
}

/* ---- settings and statistics */

static SEXP version(void) { return mkString(gluino_version()); }

static SEXP memory(void) {
  static const char* const names[] = {"live", "peak", "cached", "allocations", "models", "arrays"};
  gluino_memory m;
  if (gluino_memory_statistics(0, &m) != GLUINO_OK) return last_failure();
  const int64_t numbers[] = {m.live, m.peak, m.cached, m.allocations, m.models, m.arrays};
  SEXP list = PROTECT(named_list(6, names));
  for (int i = 0; i < 6; ++i) SET_VECTOR_ELT(list, i, ScalarReal((double)numbers[i]));
  UNPROTECT(1);
  return list;
}

static SEXP set_threads(SEXP threads) {
  return gluino_set_num_threads(asInteger(threads)) == GLUINO_OK ? R_NilValue : last_failure();
}

static const R_CallMethodDef functions[] = {{"C_gluino_load", (DL_FUNC)&load, 2},
                                            {"C_gluino_values", (DL_FUNC)&values, 2},
                                            {"C_gluino_predict", (DL_FUNC)&predict, 2},
                                            {"C_gluino_invoke", (DL_FUNC)&invoke, 4},
                                            {"C_gluino_version", (DL_FUNC)&version, 0},
                                            {"C_gluino_memory", (DL_FUNC)&memory, 0},
                                            {"C_gluino_set_threads", (DL_FUNC)&set_threads, 1},
                                            {NULL, NULL, 0}};

void R_init_gluino(DllInfo* dll) {
  R_registerRoutines(dll, NULL, functions, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
}
