/* Runs the models of make_models.py and compares with what Python computed, from several threads: test_models FOLDER */
#include <gluino/c_api.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, THREADS = 4, CALLS = 5 };

typedef struct value {
  char name[64];
  gluino_buffer buffer;
} value;

typedef struct test_case {
  value inputs[MOST], outputs[MOST];
  size_t num_inputs, num_outputs;
  struct test_case* next;
} test_case;

typedef struct job {
  gluino_model model;
  const test_case* cases;
  int failures;
} job;

static void fail(const char* what, const char* detail) {
  fprintf(stderr, "%s: %s\n", what, detail);
  exit(1);
}

static void read_value(FILE* file, value* v) {
  char dtype[16];
  size_t n = 1, i;
  int axis;
  memset(v, 0, sizeof *v);
  if (fscanf(file, "%63s %15s %d", v->name, dtype, &v->buffer.ndim) != 3) fail("cases", "cut short");
  for (axis = 0; axis < v->buffer.ndim; ++axis) {
    long long extent;
    if (fscanf(file, "%lld", &extent) != 1) fail("cases", "cut short");
    v->buffer.shape[axis] = extent;
    n *= (size_t)extent;
  }
  v->buffer.dtype = strcmp(dtype, "int32") == 0 ? GLUINO_INT32 : GLUINO_FLOAT32;
  v->buffer.bytes = n * 4;
  v->buffer.data = malloc(n * 4);
  for (i = 0; i < n; ++i)
    if (v->buffer.dtype == GLUINO_INT32 ? fscanf(file, "%d", (int*)v->buffer.data + i) != 1
                                        : fscanf(file, "%f", (float*)v->buffer.data + i) != 1)
      fail("cases", "cut short");
}

static test_case* read_cases(const char* path) {
  FILE* file = fopen(path, "r");
  test_case *first = NULL, *current = calloc(1, sizeof *current);
  char word[16];
  if (!file) fail(path, "cannot be read");
  while (fscanf(file, "%15s", word) == 1)
    if (strcmp(word, "input") == 0) {
      read_value(file, &current->inputs[current->num_inputs++]);
    } else if (strcmp(word, "output") == 0) {
      read_value(file, &current->outputs[current->num_outputs++]);
    } else {
      current->next = first;
      first = current;
      current = calloc(1, sizeof *current);
    }
  free(current);
  fclose(file);
  return first;
}

static int differs(const gluino_buffer* got, const gluino_buffer* want) {
  size_t i, n = want->bytes / 4;
  if (got->ndim != want->ndim || memcmp(got->shape, want->shape, (size_t)want->ndim * sizeof(int64_t)) != 0) return 1;
  for (i = 0; i < n; ++i)
    if (!(fabs((double)((float*)got->data)[i] - ((float*)want->data)[i]) <= 1e-6)) return 1;
  return 0;
}

static void* work(void* argument) {
  job* j = argument;
  int call;
  const test_case* c;
  for (call = 0; call < CALLS; ++call)
    for (c = j->cases; c; c = c->next) {
      gluino_buffer inputs[MOST], outputs[MOST];
      size_t i;
      for (i = 0; i < c->num_inputs; ++i) inputs[i] = c->inputs[i].buffer;
      for (i = 0; i < c->num_outputs; ++i) {
        outputs[i] = c->outputs[i].buffer;
        outputs[i].data = malloc(outputs[i].bytes);
      }
      if (gluino_model_run(j->model, inputs, c->num_inputs, outputs, c->num_outputs) != GLUINO_OK) {
        fprintf(stderr, "%s\n", gluino_last_error_message());
        ++j->failures;
      } else {
        for (i = 0; i < c->num_outputs; ++i) j->failures += differs(&outputs[i], &c->outputs[i].buffer);
      }
      for (i = 0; i < c->num_outputs; ++i) free(outputs[i].data);
    }
  return NULL;
}

static int check(const char* folder, const char* name) {
  char path[1024];
  gluino_model model;
  test_case *cases, *next;
  pthread_t threads[THREADS];
  job jobs[THREADS];
  int t, failures = 0;
  snprintf(path, sizeof path, "%s/%s.cases", folder, name);
  cases = read_cases(path);
  snprintf(path, sizeof path, "%s/%s-symbol.json", folder, name);
  if (gluino_model_load(path, NULL, NULL, &model) != GLUINO_OK) fail(path, gluino_last_error_message());
  for (t = 0; t < THREADS; ++t) {
    jobs[t].model = model;
    jobs[t].cases = cases;
    jobs[t].failures = 0;
    pthread_create(&threads[t], NULL, work, &jobs[t]);
  }
  for (t = 0; t < THREADS; ++t) {
    pthread_join(threads[t], NULL);
    failures += jobs[t].failures;
  }
  gluino_model_free(model);
  for (; cases; cases = next) {
    size_t i;
    for (i = 0; i < cases->num_inputs; ++i) free(cases->inputs[i].buffer.data);
    for (i = 0; i < cases->num_outputs; ++i) free(cases->outputs[i].buffer.data);
    next = cases->next;
    free(cases);
  }
  printf("%s: %s\n", name, failures ? "WRONG" : "as Python");
  return failures;
}

int main(int argc, char** argv) {
  static const char* const names[] = {"mlp", "conv", "loop", "embedding"};
  int failures = 0;
  size_t i;
  if (argc < 2) fail("test_models", "which folder?");
  for (i = 0; i < sizeof names / sizeof *names; ++i) failures += check(argv[1], names[i]);
  return failures != 0;
}
