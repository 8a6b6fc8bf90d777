/* A program in C99 that knows the header alone. The model is a graph without parameters: y = relu(2 x + 1). */
#include <gluino/c_api.h>
#include <stdio.h>
#include <string.h>

static const char graph[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
    " {\"op\": \"_mul_scalar\", \"name\": \"twice\", \"attrs\": {\"scalar\": \"2\"}, \"inputs\": [[0, 0, 0]]},"
    " {\"op\": \"_plus_scalar\", \"name\": \"more\", \"attrs\": {\"scalar\": \"1\"}, \"inputs\": [[1, 0, 0]]},"
    " {\"op\": \"relu\", \"name\": \"y\", \"inputs\": [[2, 0, 0]]}],"
    " \"arg_nodes\": [0], \"node_row_ptr\": [0, 1, 2, 3, 4], \"heads\": [[3, 0, 0]], \"attrs\": {\"mxnet_version\": [\"int\", 10900]}}";

#define CHECK(condition)                                                                     \
  if (!(condition)) {                                                                        \
    fprintf(stderr, "line %d: %s\n%s\n", __LINE__, #condition, gluino_last_error_message()); \
    return 1;                                                                                \
  }

int main(void) {
  gluino_model model;
  gluino_array a, b;
  gluino_value_info info;
  size_t count = 1;
  int i;
  const float x[4] = {-3, 0, 1, 2};
  float x_again[4], y[4];
  const int64_t shape[2] = {2, 2};
  gluino_buffer in = {0}, out = {0};
  CHECK(strcmp(gluino_version(), "") != 0);
  CHECK(gluino_c_api_version() == GLUINO_C_API_VERSION);
  CHECK(gluino_set_num_threads(1) == GLUINO_OK && gluino_num_threads() == 1);
  CHECK(gluino_model_load_memory(graph, sizeof graph - 1, NULL, 0, NULL, &model) == GLUINO_OK);
  CHECK(gluino_model_input(model, 0, &info) == GLUINO_OK && strcmp(info.name, "x") == 0);
  memcpy(x_again, x, sizeof x);
  in.data = x_again;
  in.bytes = sizeof x;
  in.dtype = GLUINO_FLOAT32;
  in.ndim = 1;
  in.shape[0] = 4;
  out.data = y;
  out.bytes = sizeof y;
  out.dtype = GLUINO_ANY_DTYPE;
  for (i = 0; i < 3; ++i) CHECK(gluino_model_run(model, &in, 1, &out, 1) == GLUINO_OK);
  CHECK(out.ndim == 1 && out.shape[0] == 4 && y[0] == 0 && y[1] == 1 && y[2] == 3 && y[3] == 5);
  CHECK(gluino_array_create(GLUINO_FLOAT32, 2, shape, x, sizeof x, &a) == GLUINO_OK);
  CHECK(gluino_invoke("square", &a, 1, NULL, NULL, 0, &b, &count) == GLUINO_OK && count == 1);
  CHECK(gluino_array_read(b, y, sizeof y) == GLUINO_OK && y[0] == 9 && y[3] == 4);
  CHECK(gluino_array_free(a) == GLUINO_OK && gluino_array_free(b) == GLUINO_OK);
  CHECK(gluino_array_free(a) == GLUINO_ERROR_HANDLE && strlen(gluino_last_error_message()) > 0);
  CHECK(gluino_model_free(model) == GLUINO_OK);
  puts("plain C works");
  return 0;
}
