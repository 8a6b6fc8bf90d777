/* The part of the package that calls Gluino's C interface. index.js wraps it; handles are numbers there too. */
#define NAPI_VERSION 8
#include <gluino/c_api.h>
#include <node_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 64 };

/* ---- small conversions; each leaves an exception behind when it gives false */

static bool fine(napi_env env, napi_status status) {
  bool pending = false;
  if (status == napi_ok) return true;
  napi_is_exception_pending(env, &pending);
  if (!pending) napi_throw_type_error(env, NULL, "an argument has the wrong type");
  return false;
}

static napi_value text_value(napi_env env, const char* text) {
  napi_value value = NULL;
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
  return value;
}

static void set_text(napi_env env, napi_value object, const char* key, const char* text) {
  napi_set_named_property(env, object, key, text_value(env, text));
}

static napi_value error_value(napi_env env, const char* code, const char* message, const char* hint) {
  napi_value error;
  napi_create_error(env, text_value(env, code), text_value(env, message), &error);
  set_text(env, error, "hint", hint);
  return error;
}

static napi_value throw_last_error(napi_env env) {
  napi_throw(env, error_value(env, gluino_status_name(gluino_last_error_code()), gluino_last_error_message(), gluino_last_error_hint()));
  return NULL;
}

static bool get_handle(napi_env env, napi_value value, uint64_t* handle) {
  double number;
  if (!fine(env, napi_get_value_double(env, value, &number))) return false;
  *handle = number >= 0 && number < 9007199254740992.0 ? (uint64_t)number : 0;
  return true;
}

/* null and undefined become a null pointer */
static bool get_text(napi_env env, napi_value value, char** text) {
  napi_valuetype type;
  size_t length;
  *text = NULL;
  if (!fine(env, napi_typeof(env, value, &type))) return false;
  if (type == napi_null || type == napi_undefined) return true;
  if (!fine(env, napi_get_value_string_utf8(env, value, NULL, 0, &length))) return false;
  *text = malloc(length + 1);
  if (!*text) return fine(env, napi_generic_failure);
  return fine(env, napi_get_value_string_utf8(env, value, *text, length + 1, &length));
}

static gluino_dtype dtype_of(napi_typedarray_type type) {
  switch (type) {
    case napi_float32_array: return GLUINO_FLOAT32;
    case napi_float64_array: return GLUINO_FLOAT64;
    case napi_int32_array: return GLUINO_INT32;
    case napi_int8_array: return GLUINO_INT8;
    case napi_uint8_array:
    case napi_uint8_clamped_array: return GLUINO_UINT8;
    case napi_bigint64_array: return GLUINO_INT64;
    case napi_uint16_array: return GLUINO_FLOAT16;
    default: return GLUINO_ANY_DTYPE;
  }
}

static gluino_dtype dtype_named(const char* name) {
  gluino_dtype dtype;
  for (dtype = 0; dtype < 32; ++dtype)
    if (gluino_dtype_name(dtype) && strcmp(gluino_dtype_name(dtype), name) == 0) return dtype;
  return GLUINO_ANY_DTYPE;
}

/* {data: TypedArray, shape: number[], dtype?: string} */
static bool get_buffer(napi_env env, napi_value object, gluino_buffer* buffer) {
  napi_value data, shape, dtype, extent, memory;
  napi_typedarray_type type;
  napi_valuetype kind;
  size_t length, offset;
  uint32_t ndim, i;
  bool is_typed = false, is_array = false;
  memset(buffer, 0, sizeof *buffer);
  if (!fine(env, napi_get_named_property(env, object, "data", &data)) || !fine(env, napi_get_named_property(env, object, "shape", &shape)) ||
      !fine(env, napi_get_named_property(env, object, "dtype", &dtype)))
    return false;
  napi_is_typedarray(env, data, &is_typed);
  napi_is_array(env, shape, &is_array);
  if (!is_typed || !is_array) {
    napi_throw_type_error(env, NULL, "a tensor is {data: TypedArray, shape: number[]}");
    return false;
  }
  if (!fine(env, napi_get_typedarray_info(env, data, &type, &length, &buffer->data, &memory, &offset))) return false;
  buffer->dtype = dtype_of(type);
  buffer->bytes = length * gluino_dtype_bytes(buffer->dtype);
  napi_typeof(env, dtype, &kind);
  if (kind == napi_string) {
    char* name;
    gluino_dtype named;
    if (!get_text(env, dtype, &name)) return false;
    named = dtype_named(name);
    free(name);
    if (gluino_dtype_bytes(named) != gluino_dtype_bytes(buffer->dtype)) {
      napi_throw_type_error(env, NULL, "dtype and the kind of typed array do not go together");
      return false;
    }
    buffer->dtype = named;
  }
  if (buffer->dtype == GLUINO_ANY_DTYPE) {
    napi_throw_type_error(env, NULL, "no dtype has this kind of typed array; use Float32Array, Int32Array, ...");
    return false;
  }
  if (!fine(env, napi_get_array_length(env, shape, &ndim))) return false;
  if (ndim > GLUINO_MAX_AXES) {
    napi_throw_range_error(env, NULL, "too many axes");
    return false;
  }
  buffer->ndim = (int32_t)ndim;
  for (i = 0; i < ndim; ++i)
    if (!fine(env, napi_get_element(env, shape, i, &extent)) || !fine(env, napi_get_value_int64(env, extent, &buffer->shape[i]))) return false;
  return true;
}

static bool get_buffers(napi_env env, napi_value list, gluino_buffer* buffers, uint32_t* count) {
  uint32_t i;
  if (!fine(env, napi_get_array_length(env, list, count))) return false;
  if (*count > MOST_VALUES) {
    napi_throw_range_error(env, NULL, "too many inputs");
    return false;
  }
  for (i = 0; i < *count; ++i) {
    napi_value object;
    if (!fine(env, napi_get_element(env, list, i, &object)) || !get_buffer(env, object, &buffers[i])) return false;
  }
  return true;
}

static napi_value shape_value(napi_env env, const int64_t* shape, int32_t ndim) {
  napi_value list, extent;
  int32_t i;
  if (ndim < 0) {
    napi_get_null(env, &list);
    return list;
  }
  napi_create_array_with_length(env, (size_t)ndim, &list);
  for (i = 0; i < ndim; ++i) {
    napi_create_int64(env, shape[i], &extent);
    napi_set_element(env, list, (uint32_t)i, extent);
  }
  return list;
}

static napi_typedarray_type kind_of(gluino_dtype dtype) {
  switch (dtype) {
    case GLUINO_FLOAT32: return napi_float32_array;
    case GLUINO_FLOAT64: return napi_float64_array;
    case GLUINO_INT32: return napi_int32_array;
    case GLUINO_INT8: return napi_int8_array;
    case GLUINO_INT64: return napi_bigint64_array;
    case GLUINO_FLOAT16:
    case GLUINO_BFLOAT16: return napi_uint16_array;
    default: return napi_uint8_array;
  }
}

/* Arrays become {data, shape, dtype}, and are freed. */
static napi_value take_arrays(napi_env env, const gluino_array* arrays, size_t count) {
  napi_value list;
  size_t i;
  napi_create_array_with_length(env, count, &list);
  for (i = 0; i < count; ++i) {
    gluino_buffer info;
    napi_value object, memory, data;
    void* bytes = NULL;
    if (gluino_array_info(arrays[i], &info) == GLUINO_OK && napi_create_object(env, &object) == napi_ok &&
        napi_create_arraybuffer(env, info.bytes, &bytes, &memory) == napi_ok) {
      if (info.bytes > 0) memcpy(bytes, info.data, info.bytes);
      napi_create_typedarray(env, kind_of(info.dtype), info.bytes / gluino_dtype_bytes(info.dtype), memory, 0, &data);
      napi_set_named_property(env, object, "data", data);
      napi_set_named_property(env, object, "shape", shape_value(env, info.shape, info.ndim));
      set_text(env, object, "dtype", gluino_dtype_name(info.dtype));
      napi_set_element(env, list, (uint32_t)i, object);
    }
    gluino_array_free(arrays[i]);
  }
  return list;
}

/* ---- functions */

#define ARGUMENTS(n)                                                          \
  napi_value args[n];                                                         \
  size_t argc = n;                                                            \
  if (!fine(env, napi_get_cb_info(env, info, &argc, args, NULL, NULL))) return NULL

static napi_value load(napi_env env, napi_callback_info info) {
  char *path = NULL, *params = NULL;
  gluino_model model;
  gluino_status status;
  napi_value result = NULL;
  ARGUMENTS(2);
  if (get_text(env, args[0], &path) && get_text(env, args[1], &params)) {
    status = gluino_model_load(path, params, NULL, &model);
    if (status == GLUINO_OK)
      napi_create_double(env, (double)model, &result);
    else
      throw_last_error(env);
  }
  free(path);
  free(params);
  return result;
}

static bool get_bytes(napi_env env, napi_value value, void** data, size_t* length) {
  bool is_buffer = false;
  *data = NULL;
  *length = 0;
  napi_is_buffer(env, value, &is_buffer);
  return !is_buffer || fine(env, napi_get_buffer_info(env, value, data, length));
}

static napi_value load_memory(napi_env env, napi_callback_info info) {
  void *graph, *params;
  size_t graph_bytes, params_bytes;
  gluino_model model;
  napi_value result = NULL;
  ARGUMENTS(2);
  if (!get_bytes(env, args[0], &graph, &graph_bytes) || !get_bytes(env, args[1], &params, &params_bytes)) return NULL;
  if (gluino_model_load_memory(graph, graph_bytes, params, params_bytes, NULL, &model) != GLUINO_OK) return throw_last_error(env);
  napi_create_double(env, (double)model, &result);
  return result;
}

static napi_value free_model(napi_env env, napi_callback_info info) {
  gluino_model model;
  ARGUMENTS(1);
  if (!get_handle(env, args[0], &model)) return NULL;
  return gluino_model_free(model) == GLUINO_OK ? NULL : throw_last_error(env);
}

static napi_value values_of(napi_env env, gluino_model model, gluino_status (*count_of)(gluino_model, size_t*),
                            gluino_status (*tell)(gluino_model, size_t, gluino_value_info*)) {
  napi_value list, object;
  size_t count, i;
  if (count_of(model, &count) != GLUINO_OK) return throw_last_error(env);
  napi_create_array_with_length(env, count, &list);
  for (i = 0; i < count; ++i) {
    gluino_value_info value;
    if (tell(model, i, &value) != GLUINO_OK) return throw_last_error(env);
    napi_create_object(env, &object);
    set_text(env, object, "name", value.name);
    if (gluino_dtype_name(value.dtype)) set_text(env, object, "dtype", gluino_dtype_name(value.dtype));
    napi_set_named_property(env, object, "shape", shape_value(env, value.shape, value.ndim));
    napi_set_element(env, list, (uint32_t)i, object);
  }
  return list;
}

static napi_value inputs_of(napi_env env, napi_callback_info info) {
  gluino_model model;
  ARGUMENTS(1);
  return get_handle(env, args[0], &model) ? values_of(env, model, gluino_model_num_inputs, gluino_model_input) : NULL;
}
static napi_value outputs_of(napi_env env, napi_callback_info info) {
  gluino_model model;
  ARGUMENTS(1);
  return get_handle(env, args[0], &model) ? values_of(env, model, gluino_model_num_outputs, gluino_model_output) : NULL;
}

static gluino_status predict(gluino_model model, const gluino_buffer* inputs, uint32_t num_inputs, gluino_array* outputs, size_t* count) {
  const gluino_status status = gluino_model_num_outputs(model, count);
  if (status != GLUINO_OK) return status;
  if (*count > MOST_VALUES) *count = MOST_VALUES;
  return gluino_model_predict(model, inputs, num_inputs, outputs, *count);
}

static napi_value run(napi_env env, napi_callback_info info) {
  gluino_model model;
  gluino_buffer inputs[MOST_VALUES];
  gluino_array outputs[MOST_VALUES];
  uint32_t num_inputs;
  size_t count;
  ARGUMENTS(2);
  if (!get_handle(env, args[0], &model) || !get_buffers(env, args[1], inputs, &num_inputs)) return NULL;
  if (predict(model, inputs, num_inputs, outputs, &count) != GLUINO_OK) return throw_last_error(env);
  return take_arrays(env, outputs, count);
}

/* A call on a thread of Node's pool. The inputs are copied: the program may give their memory away meanwhile. */
typedef struct job {
  napi_async_work work;
  napi_deferred deferred;
  gluino_model model;
  gluino_buffer inputs[MOST_VALUES];
  gluino_array outputs[MOST_VALUES];
  uint32_t num_inputs;
  size_t count;
  gluino_status status;
  char *message, *hint;
} job;

static char* copy_text(const char* text) {
  char* copy = malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}

static void run_job(napi_env env, void* data) {
  job* j = data;
  (void)env;
  j->status = predict(j->model, j->inputs, j->num_inputs, j->outputs, &j->count);
  if (j->status != GLUINO_OK) {
    j->message = copy_text(gluino_last_error_message());
    j->hint = copy_text(gluino_last_error_hint());
  }
}

static void free_job(job* j) {
  uint32_t i;
  for (i = 0; i < j->num_inputs; ++i) free(j->inputs[i].data);
  free(j->message);
  free(j->hint);
  free(j);
}

static void finish_job(napi_env env, napi_status status, void* data) {
  job* j = data;
  if (status == napi_ok && j->status == GLUINO_OK)
    napi_resolve_deferred(env, j->deferred, take_arrays(env, j->outputs, j->count));
  else
    napi_reject_deferred(env, j->deferred,
                         error_value(env, gluino_status_name(j->status), j->message ? j->message : "the call was given up", j->hint ? j->hint : ""));
  napi_delete_async_work(env, j->work);
  free_job(j);
}

static napi_value run_async(napi_env env, napi_callback_info info) {
  napi_value promise = NULL;
  gluino_buffer inputs[MOST_VALUES];
  uint32_t num_inputs;
  gluino_model model;
  job* j;
  ARGUMENTS(2);
  if (!get_handle(env, args[0], &model) || !get_buffers(env, args[1], inputs, &num_inputs)) return NULL;
  j = calloc(1, sizeof *j);
  if (!j) return fine(env, napi_generic_failure), NULL;
  j->model = model;
  for (; j->num_inputs < num_inputs; ++j->num_inputs) {
    gluino_buffer* copy = &j->inputs[j->num_inputs];
    *copy = inputs[j->num_inputs];
    copy->data = malloc(copy->bytes + 1);
    if (!copy->data) return free_job(j), fine(env, napi_generic_failure), NULL;
    if (copy->bytes > 0) memcpy(copy->data, inputs[j->num_inputs].data, copy->bytes);
  }
  if (!fine(env, napi_create_promise(env, &j->deferred, &promise)) ||
      !fine(env, napi_create_async_work(env, NULL, text_value(env, "gluino"), run_job, finish_job, j, &j->work)) ||
      !fine(env, napi_queue_async_work(env, j->work)))
    return free_job(j), NULL;
  return promise;
}

/* invoke(name, tensors, keys, values): all attributes as text */
static napi_value invoke(napi_env env, napi_callback_info info) {
  gluino_buffer inputs[MOST_VALUES];
  gluino_array arrays[MOST_VALUES], outputs[MOST_VALUES];
  char *name = NULL, *keys[MOST_VALUES] = {0}, *values[MOST_VALUES] = {0};
  uint32_t num_inputs, num_attributes, made = 0, i;
  size_t count = MOST_VALUES;
  bool good;
  napi_value result = NULL;
  ARGUMENTS(4);
  good = get_text(env, args[0], &name) && get_buffers(env, args[1], inputs, &num_inputs) &&
         fine(env, napi_get_array_length(env, args[2], &num_attributes)) && num_attributes <= MOST_VALUES;
  for (i = 0; good && i < num_attributes; ++i) {
    napi_value key, value;
    good = fine(env, napi_get_element(env, args[2], i, &key)) && fine(env, napi_get_element(env, args[3], i, &value)) &&
           get_text(env, key, &keys[i]) && get_text(env, value, &values[i]);
  }
  if (good) {
    gluino_status status = GLUINO_OK;
    for (; made < num_inputs && status == GLUINO_OK; ++made) {
      const gluino_buffer* b = &inputs[made];
      status = gluino_array_create(b->dtype, b->ndim, b->shape, b->data, b->bytes, &arrays[made]);
    }
    if (status == GLUINO_OK)
      status = gluino_invoke(name, arrays, num_inputs, (const char* const*)keys, (const char* const*)values, num_attributes, outputs, &count);
    result = status == GLUINO_OK ? take_arrays(env, outputs, count) : throw_last_error(env);
    for (i = 0; i < made; ++i)
      if (arrays[i]) gluino_array_free(arrays[i]);
  }
  free(name);
  for (i = 0; i < MOST_VALUES; ++i) {
    free(keys[i]);
    free(values[i]);
  }
  return result;
}

static napi_value set_num_threads(napi_env env, napi_callback_info info) {
  int32_t threads;
  ARGUMENTS(1);
  if (!fine(env, napi_get_value_int32(env, args[0], &threads))) return NULL;
  return gluino_set_num_threads(threads) == GLUINO_OK ? NULL : throw_last_error(env);
}

static napi_value memory(napi_env env, napi_callback_info info) {
  gluino_memory m;
  napi_value object, number;
  (void)info;
  if (gluino_memory_statistics(0, &m) != GLUINO_OK) return throw_last_error(env);
  napi_create_object(env, &object);
#define FIELD(name)                            \
  napi_create_int64(env, m.name, &number);     \
  napi_set_named_property(env, object, #name, number)
  FIELD(live);
  FIELD(peak);
  FIELD(cached);
  FIELD(allocations);
  FIELD(models);
  FIELD(arrays);
#undef FIELD
  return object;
}

static napi_value start(napi_env env, napi_value exports) {
  static const struct {
    const char* name;
    napi_callback function;
  } functions[] = {{"load", load},         {"loadMemory", load_memory}, {"free", free_model},  {"inputs", inputs_of},
                   {"outputs", outputs_of}, {"run", run},                {"runAsync", run_async}, {"invoke", invoke},
                   {"setNumThreads", set_num_threads}, {"memory", memory}};
  size_t i;
  for (i = 0; i < sizeof functions / sizeof *functions; ++i) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  set_text(env, exports, "version", gluino_version());
  return exports;
}

NAPI_MODULE(gluino, start)
