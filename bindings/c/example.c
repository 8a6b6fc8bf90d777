/* Runs an exported network in eight threads on the same weights: example net-symbol.json [net-0000.params] */
#include <gluino/c_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static gluino_model net;

static void* work(void* result) {
  gluino_value_info info;
  gluino_buffer in = {0}, y;
  gluino_array out;
  size_t n = 1;
  if (gluino_model_input(net, 0, &info) != GLUINO_OK || info.dtype != GLUINO_FLOAT32) return NULL;
  in.ndim = info.ndim;
  for (int i = 0; i < info.ndim; ++i) n *= (size_t)(in.shape[i] = info.shape[i] < 0 ? 8 : info.shape[i]); /* free extents: 8 */
  in.bytes = n * sizeof(float);
  in.data = malloc(in.bytes);
  for (size_t i = 0; i < n; ++i) ((float*)in.data)[i] = 0.5f;
  for (int call = 0; call < 20; ++call)
    if (gluino_model_predict(net, &in, 1, &out, 1) == GLUINO_OK) {
      if (gluino_array_info(out, &y) == GLUINO_OK) *(float*)result = ((float*)y.data)[0];
      gluino_array_free(out);
    } else {
      fprintf(stderr, "%s\n", gluino_last_error_message());
    }
  return free(in.data), NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[8];
  float results[8] = {0};
  if (argc < 2 || gluino_model_load(argv[1], argc > 2 ? argv[2] : NULL, NULL, &net) != GLUINO_OK)
    return fprintf(stderr, "%s\n", argc < 2 ? "which model?" : gluino_last_error_message()), 1;
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, work, &results[i]);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 8; ++i) printf("thread %d: %g\n", i, results[i]);
  return gluino_model_free(net);
}
