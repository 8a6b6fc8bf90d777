/* Gluino's C interface: load exported models and run them, call operators by name on arrays. For C99 and for whatever calls C.
 *
 *   gluino_model net;
 *   if (gluino_model_load("net-symbol.json", "net-0000.params", NULL, &net) != GLUINO_OK) puts(gluino_last_error_message());
 *   float x[512] = {0}, y[10];
 *   gluino_buffer in = {x, sizeof x, GLUINO_FLOAT32, 2, {1, 512}}, out = {y, sizeof y, GLUINO_ANY_DTYPE};
 *   gluino_model_run(net, &in, 1, &out, 1);
 *   gluino_model_free(net);
 *
 * Link with -lgluino_c (pkg-config gluino_c, or the CMake target gluino::gluino_c). The library has a soname and a version of its
 * own, and exports the names of this header alone.
 *
 * Rules for all functions:
 * - They return GLUINO_OK or an error's code; what went wrong is then told by gluino_last_error_message() on the same thread. No
 *   C++ exception leaves the library. After an error nothing has changed but what the function's description says.
 * - A handle is a number. A handle that was freed, that is of the other kind, or that never was one is GLUINO_ERROR_HANDLE; so is 0.
 * - Every function may be called from any thread at any time. One model runs in as many threads as call it, on the same weights.
 *   What is freed while another thread uses it lives until that call is over.
 * - Text is UTF-8 and ends with a zero byte. Text that comes back belongs to the library; each function says how long it lives.
 * - After fork() the child may go on with what the parent loaded, on one thread. */
#ifndef GLUINO_C_API_H
#define GLUINO_C_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(GLUINO_C_BUILD)
#define GLUINO_C_API __attribute__((visibility("default")))
#else
#define GLUINO_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- versions */

/* Raised when a function or a field is added; GLUINO_C_ABI_VERSION when existing programs would no longer work, as the soname is. */
#define GLUINO_C_API_VERSION 1
#define GLUINO_C_ABI_VERSION 1

GLUINO_C_API const char* gluino_version(void); /* of Gluino, as "1.2.3"; lives for ever */
GLUINO_C_API int gluino_c_api_version(void);   /* GLUINO_C_API_VERSION of the library that runs */

/* ---- errors */

typedef int gluino_status;
enum {
  GLUINO_OK = 0,
  GLUINO_ERROR_ARGUMENT = 1,  /* a wrong use: a null pointer, an unknown name, a wrong number of things */
  GLUINO_ERROR_HANDLE = 2,    /* not a handle of this kind, or one that was freed */
  GLUINO_ERROR_SHAPE = 3,     /* shapes that do not go together */
  GLUINO_ERROR_DTYPE = 4,     /* element types that do not go together, or that do not exist */
  GLUINO_ERROR_ATTRIBUTE = 5, /* an operator's attribute */
  GLUINO_ERROR_INDEX = 6,     /* an index out of range */
  GLUINO_ERROR_TOO_SMALL = 7, /* memory of the caller's has less room than the result needs */
  GLUINO_ERROR_SYSTEM = 8,    /* files and the operating system */
  GLUINO_ERROR_MEMORY = 9,    /* no memory left */
  GLUINO_ERROR_INTERNAL = 10  /* a fault of Gluino's own; the message asks for a report */
};

/* Of the last function that failed on this thread. The texts live until the next one fails on this thread, and are never null. */
GLUINO_C_API gluino_status gluino_last_error_code(void);
GLUINO_C_API const char* gluino_last_error_message(void);          /* what was given and what is needed, hint included */
GLUINO_C_API const char* gluino_last_error_hint(void);             /* what to do; "" where the message says it all */
GLUINO_C_API const char* gluino_status_name(gluino_status status); /* "GLUINO_ERROR_SHAPE"; lives for ever */

/* ---- element types; the numbers are those of MXNet's files */

typedef int32_t gluino_dtype;
enum {
  GLUINO_ANY_DTYPE = -1, /* only where a description allows it */
  GLUINO_FLOAT32 = 0,
  GLUINO_FLOAT64 = 1,
  GLUINO_FLOAT16 = 2,
  GLUINO_UINT8 = 3,
  GLUINO_INT32 = 4,
  GLUINO_INT8 = 5,
  GLUINO_INT64 = 6,
  GLUINO_BOOL = 7,
  GLUINO_BFLOAT16 = 12
};

GLUINO_C_API const char* gluino_dtype_name(gluino_dtype dtype); /* "float32"; null for a number that is no dtype; lives for ever */
GLUINO_C_API size_t gluino_dtype_bytes(gluino_dtype dtype);     /* of one element; 0 for a number that is no dtype */

/* ---- buffers: memory of the caller's, described */

#define GLUINO_MAX_AXES 32

typedef struct gluino_buffer {
  void* data;   /* the first element; null only where there are none */
  size_t bytes; /* how many bytes there are from data on */
  gluino_dtype dtype;
  int32_t ndim;
  int64_t shape[GLUINO_MAX_AXES]; /* the first ndim count */
  const int64_t* strides;         /* ndim steps in elements, none negative; null: row-major order without gaps */
} gluino_buffer;

/* ---- models */

typedef uint64_t gluino_model;

/* Set struct_size to sizeof(gluino_model_options) and the rest to 0; then what differs from the defaults. */
typedef struct gluino_model_options {
  size_t struct_size;
  int32_t device;               /* memory and random numbers of cpu(device), 0 to 15 */
  int32_t operator_by_operator; /* 1: without compiling; slower, for comparison */
  int32_t keep_memory;          /* 1: memory for intermediate values stays with the model between calls */
  size_t num_inputs;            /* names of the inputs in the order in which run takes them; 0: the variables without parameters */
  const char* const* input_names;
} gluino_model_options;

/* Loads a model. `path` is a graph, as <name>-symbol.json, a model in one file, as save() writes it, or an ONNX model (.onnx);
 * `params_path` the parameters of a graph (.params, .npz), or null: then the only file <name>-<number>*.params beside the graph is
 * taken, and where there is none the graph is run without parameters. `options` may be null. Free the model with gluino_model_free. */
GLUINO_C_API gluino_status gluino_model_load(const char* path, const char* params_path, const gluino_model_options* options,
                                             gluino_model* model);
/* The same from memory, which may be freed afterwards: the bytes of a graph with those of its parameters (null and 0: none), or the
 * bytes of a one-file model or of an ONNX model alone. */
GLUINO_C_API gluino_status gluino_model_load_memory(const void* graph, size_t graph_bytes, const void* params, size_t params_bytes,
                                                    const gluino_model_options* options, gluino_model* model);
GLUINO_C_API gluino_status gluino_model_free(gluino_model model);

/* What is known of an input or output before anything runs. */
typedef struct gluino_value_info {
  const char* name;               /* lives as long as the model */
  gluino_dtype dtype;             /* float32 where the graph does not say; GLUINO_ANY_DTYPE: not known before the call */
  int32_t ndim;                   /* -1: not known before the call */
  int64_t shape[GLUINO_MAX_AXES]; /* -1: a free extent, which may change from call to call */
} gluino_value_info;

GLUINO_C_API gluino_status gluino_model_num_inputs(gluino_model model, size_t* count);
GLUINO_C_API gluino_status gluino_model_num_outputs(gluino_model model, size_t* count);
GLUINO_C_API gluino_status gluino_model_input(gluino_model model, size_t index, gluino_value_info* info);
GLUINO_C_API gluino_status gluino_model_output(gluino_model model, size_t index, gluino_value_info* info);

/* Shapes and dtypes of the outputs for inputs of these shapes and dtypes (their data is not looked at), without running: writes dtype,
 * ndim, shape and the needed bytes into `outputs`, and leaves data and strides alone. Where an extent depends on values it is -1 and
 * bytes is 0; of an ONNX model what its file says is told. */
GLUINO_C_API gluino_status gluino_model_infer(gluino_model model, const gluino_buffer* inputs, size_t num_inputs, gluino_buffer* outputs,
                                              size_t num_outputs);

/* Runs the model on memory of the caller's. Inputs in the order of gluino_model_input; any shapes that the model takes, which may
 * change from call to call. Outputs: the caller sets data, bytes and strides, and dtype to the one expected or GLUINO_ANY_DTYPE; the
 * library writes the elements, dtype, ndim and shape. With strides the caller sets ndim and shape too, and the result must have them.
 * Inputs without strides and aligned for their elements are read where they are; results are computed in place where the memory is
 * row-major, aligned to 8 bytes, and overlaps nothing else; otherwise they are copied. `outputs` may be fewer than the model has: the
 * first ones. GLUINO_ERROR_TOO_SMALL: dtype, ndim and shape of the outputs say what is needed. */
GLUINO_C_API gluino_status gluino_model_run(gluino_model model, const gluino_buffer* inputs, size_t num_inputs, gluino_buffer* outputs,
                                            size_t num_outputs);

/* ---- arrays: memory of the library's */

typedef uint64_t gluino_array;

/* A new array on cpu(0). `data`: that many bytes in row-major order are copied; null (and bytes 0): filled with zeros. */
GLUINO_C_API gluino_status gluino_array_create(gluino_dtype dtype, int32_t ndim, const int64_t* shape, const void* data, size_t bytes,
                                               gluino_array* array);
GLUINO_C_API gluino_status gluino_array_free(gluino_array array);
/* Describes the array's own memory, row-major: it may be read and written in place until the array is freed. */
GLUINO_C_API gluino_status gluino_array_info(gluino_array array, gluino_buffer* info);
/* Copies the elements into `data`, which has room for `bytes` bytes. */
GLUINO_C_API gluino_status gluino_array_read(gluino_array array, void* data, size_t bytes);
/* Copies `bytes` bytes into the array; they must be as many as it has. */
GLUINO_C_API gluino_status gluino_array_write(gluino_array array, const void* data, size_t bytes);

/* As gluino_model_run, with results in new arrays, which the caller frees: for callers that do not know the shapes. */
GLUINO_C_API gluino_status gluino_model_predict(gluino_model model, const gluino_buffer* inputs, size_t num_inputs, gluino_array* outputs,
                                                size_t num_outputs);

/* Calls an operator by its name in MXNet on arrays, with attributes as files spell them: gluino_invoke("sum", &x, 1, (const char*[])
 * {"axis"}, (const char*[]){"(0, 1)"}, 1, &y, &n). On entry *num_outputs says how many handles `outputs` has room for, on return how
 * many the operator has given; GLUINO_ERROR_TOO_SMALL: how many it would give. The caller frees them. */
GLUINO_C_API gluino_status gluino_invoke(const char* name, const gluino_array* inputs, size_t num_inputs, const char* const* keys,
                                         const char* const* values, size_t num_attributes, gluino_array* outputs, size_t* num_outputs);
/* Names of all operators, aliases included, sorted; they live for ever. */
GLUINO_C_API gluino_status gluino_operators(const char* const** names, size_t* count);

/* ---- settings and statistics */

/* Threads that one operator may use, for the whole process; models called from many threads at once run best with 1. */
GLUINO_C_API gluino_status gluino_set_num_threads(int threads);
GLUINO_C_API int gluino_num_threads(void);
/* Random numbers of all devices start again from `seed`. */
GLUINO_C_API gluino_status gluino_seed(uint64_t seed);

typedef struct gluino_memory {
  int64_t live;        /* bytes in arrays, weights and running models now */
  int64_t peak;        /* the most that live has been since gluino_memory_reset_peak */
  int64_t cached;      /* bytes kept for reuse */
  int64_t allocations; /* since the start */
  int64_t models;      /* handles of models that are not freed; of all devices */
  int64_t arrays;      /* the same of arrays */
} gluino_memory;

GLUINO_C_API gluino_status gluino_memory_statistics(int device, gluino_memory* statistics);
GLUINO_C_API gluino_status gluino_memory_reset_peak(int device);
GLUINO_C_API gluino_status gluino_memory_release_cached(int device); /* gives the memory kept for reuse back to the system */

#ifdef __cplusplus
}
#endif
#endif
