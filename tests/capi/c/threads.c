/* Runs many threads at once: each has its own errors, all read one dataset, several append through one writer.
 * `threads FOLDER` */
#include "check.h"

#include <pthread.h>

enum { THREADS = 16, ROUNDS = 300, APPENDERS = 4, ROWS = 2000 };

static const char *folder;
static arrowwood_dataset *shared;
static arrowwood_predicate *positive;
static arrowwood_writer *writer;
static char table[4096];

static void *fail_and_query(void *argument) {
  long number = (long)argument;
  char path[4096];
  int i;
  for (i = 0; i < ROUNDS; i++) {
    arrowwood_dataset *dataset, *filtered;
    arrowwood_value value;
    uint64_t rows;
    snprintf(path, sizeof path, "%s/none-%ld-%d.arrow", folder, number, i);
    FAILS(ARROWWOOD_ERROR_NOT_FOUND, path, arrowwood_open(path, NULL, &dataset, &error));
    OK(arrowwood_dataset_reduce(shared, 0, ARROWWOOD_SUM, &value, &error));
    CHECK(value.as.int64 == 999 * 500);
    OK(arrowwood_dataset_reduce(shared, 1, ARROWWOOD_MAX, &value, &error));
    CHECK(value.length == 3 && memcmp(value.as.text, "odd", 3) == 0);
    OK(arrowwood_dataset_filter(shared, positive, &filtered, &error));
    OK(arrowwood_dataset_num_rows(filtered, &rows, &error));
    CHECK(rows == 999);
    arrowwood_dataset_free(filtered);
  }
  return NULL;
}

static void *append_rows(void *argument) {
  int64_t number = (int64_t)(long)argument;
  int i;
  for (i = 0; i < ROWS; i++) {
    arrowwood_value row[2];
    row[0] = arrowwood_int64(number);
    row[1] = arrowwood_int64(i);
    OK(arrowwood_writer_append_row(writer, row, 2, &error));
    if (i % 100 == 99) OK(arrowwood_writer_commit(writer, 0, &error));
  }
  return NULL;
}

/* Checks that each thread's rows appear once, in the thread's order. */
static void *follow_rows(void *argument) {
  int64_t next[APPENDERS] = {0};
  arrowwood_follower *follower;
  arrowwood_dataset *dataset;
  uint64_t seen = 0, rows, row;
  (void)argument;
  OK(arrowwood_open(table, NULL, &dataset, &error));
  OK(arrowwood_follow(dataset, 0, &follower, &error));
  arrowwood_dataset_free(dataset);
  while (seen < (uint64_t)APPENDERS * ROWS) {
    OK(arrowwood_follower_next(follower, -1, &dataset, &error));
    OK(arrowwood_dataset_num_rows(dataset, &rows, &error));
    for (row = 0; row < rows; row++) {
      arrowwood_value cells[2];
      OK(arrowwood_dataset_cells(dataset, row, cells, 2, &error));
      CHECK(next[cells[0].as.int64]++ == cells[1].as.int64);
    }
    seen += rows;
    arrowwood_dataset_free(dataset);
  }
  arrowwood_follower_free(follower);
  return NULL;
}

static void *wait_for_rows(void *argument) {
  arrowwood_dataset *rows = shared;
  OK(arrowwood_follower_next((arrowwood_follower *)argument, -1, &rows, &error));
  CHECK(rows == NULL);
  return NULL;
}

/* Checks that each wake ends one wait, begun or not, and that no rows are lost. */
static void test_wake(void) {
  arrowwood_follower *follower;
  arrowwood_dataset *dataset;
  pthread_t thread;
  int i;
  OK(arrowwood_open(table, NULL, &dataset, &error));
  OK(arrowwood_follow(dataset, -1, &follower, &error));
  for (i = 0; i < ROUNDS; i++) {
    CHECK(pthread_create(&thread, NULL, wait_for_rows, follower) == 0);
    OK(arrowwood_follower_wake(follower, &error));
    pthread_join(thread, NULL);
  }
  arrowwood_follower_free(follower);
  OK(arrowwood_follow(dataset, 0, &follower, &error));
  arrowwood_dataset_free(dataset);
  OK(arrowwood_follower_wake(follower, &error));
  OK(arrowwood_follower_next(follower, -1, &dataset, &error));
  CHECK(dataset != NULL);
  arrowwood_dataset_free(dataset);
  arrowwood_follower_free(follower);
}

static void build_shared(void) {
  arrowwood_value zero = arrowwood_int64(0);
  arrowwood_builder *builder;
  struct ArrowSchema schema;
  int i;
  OK(arrowwood_schema_parse("n: int64, word: utf8", &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  for (i = 0; i < 1000; i++) {
    arrowwood_value row[2];
    row[0] = arrowwood_int64(i);
    row[1] = arrowwood_text(i % 2 ? "odd" : "even");
    OK(arrowwood_builder_append_row(builder, row, 2, &error));
  }
  OK(arrowwood_builder_finish(builder, &shared, &error));
  OK(arrowwood_predicate_compare("n", ARROWWOOD_GT, &zero, &positive, &error));
  schema.release(&schema);
}

static void start_thread(pthread_t *thread, void *(*function)(void *), long number) {
  CHECK(pthread_create(thread, NULL, function, (void *)number) == 0);
}

int main(int count, char **arguments) {
  pthread_t threads[THREADS];
  struct ArrowSchema schema;
  long i;
  CHECK(count == 2);
  folder = arguments[1];
  build_shared();
  for (i = 0; i < THREADS; i++) start_thread(&threads[i], fail_and_query, i);
  for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  arrowwood_predicate_free(positive);
  arrowwood_dataset_free(shared);

  snprintf(table, sizeof table, "%s/table", folder);
  OK(arrowwood_schema_parse("thread: int64 not null, n: int64 not null", &schema, &error));
  OK(arrowwood_writer_open(table, &schema, NULL, &writer, &error));
  schema.release(&schema);
  for (i = 0; i < APPENDERS; i++) start_thread(&threads[i], append_rows, i);
  start_thread(&threads[i], follow_rows, 0);
  start_thread(&threads[i + 1], follow_rows, 0);
  for (i = 0; i < APPENDERS + 2; i++) pthread_join(threads[i], NULL);
  test_wake();
  OK(arrowwood_writer_close(writer, &error));
  puts("threads: all as they should be");
  return 0;
}
