/* Measures calls from C: `calls FOLDER`. `bench/src/bin/calls.rs` makes the data, and measures the same calls from Rust.
 * Prints a line for each: name, minimum and median nanoseconds. */
#define _POSIX_C_SOURCE 200809L
#include <arrowwood.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *folder;
static arrowwood_dataset *one;    /* 5,600,000 rows in one batch */
static arrowwood_dataset *table;  /* a table that grows */
static arrowwood_writer *writer;
static char path[2][4096];        /* one batch; 5,600 batches */
/* Results are stored here, so that the compiler does not remove the calls. */
static volatile double sink;

static void check(int32_t code, arrowwood_error *error) {
  if (code == 0) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

#define CALL(name, ...)                              \
  do {                                               \
    arrowwood_error error = ARROWWOOD_ERROR_INIT;    \
    check(name(__VA_ARGS__, &error), &error);        \
  } while (0)

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

/* Measures `repeats` calls of `work` in each of `rounds` rounds, after one round that is not counted. */
static void measure(const char *name, void (*work)(void), int repeats, int rounds) {
  double *nanoseconds = (double *)malloc((size_t)rounds * sizeof *nanoseconds);
  int round, i;
  for (round = -1; round < rounds; round++) {
    double start = now();
    for (i = 0; i < repeats; i++) work();
    if (round >= 0) nanoseconds[round] = (now() - start) / repeats;
  }
  qsort(nanoseconds, (size_t)rounds, sizeof *nanoseconds, compare);
  printf("%s\t%.1f\t%.1f\n", name, nanoseconds[0], nanoseconds[rounds / 2]);
  free(nanoseconds);
}

static void count_rows(void) {
  uint64_t rows;
  CALL(arrowwood_dataset_num_rows, one, &rows);
  sink = (double)rows;
}

static void missing_column(void) {
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  size_t column;
  if (arrowwood_dataset_column_index(one, "cost", &column, &error)) arrowwood_error_clear(&error);
}

static void open_rows(void) {
  arrowwood_dataset *dataset;
  uint64_t rows;
  CALL(arrowwood_open, path[0], NULL, &dataset);
  CALL(arrowwood_dataset_num_rows, dataset, &rows);
  arrowwood_dataset_free(dataset);
}

static void open_first_row(void) {
  arrowwood_dataset *dataset;
  arrowwood_value cells[3];
  CALL(arrowwood_open, path[0], NULL, &dataset);
  CALL(arrowwood_dataset_cells, dataset, 0, cells, 3);
  sink = cells[2].as.float64;
  arrowwood_dataset_free(dataset);
}

static void open_sum(void) {
  arrowwood_dataset *dataset;
  arrowwood_value sum;
  CALL(arrowwood_open, path[0], NULL, &dataset);
  CALL(arrowwood_dataset_reduce, dataset, 2, ARROWWOOD_SUM, &sum);
  sink = sum.as.float64;
  arrowwood_dataset_free(dataset);
}

static void random_row(void) {
  static uint64_t row;
  arrowwood_value cells[3];
  row = (row + 2654435761u) % 5600000;
  CALL(arrowwood_dataset_cells, one, row, cells, 3);
  sink = cells[2].as.float64;
}

static double add_up(const double *values, uint64_t count) {
  double lanes[8] = {0}, sum = 0;
  uint64_t i, lane;
  for (i = 0; i + 8 <= count; i += 8) {
    for (lane = 0; lane < 8; lane++) lanes[lane] += values[i + lane];
  }
  for (; i < count; i++) sum += values[i];
  for (lane = 0; lane < 8; lane++) sum += lanes[lane];
  return sum;
}

static void sum_chunks(uint32_t flags) {
  arrowwood_dataset *dataset;
  const arrowwood_chunk *chunks;
  arrowwood_chunks *owner;
  size_t count, i;
  double sum = 0;
  CALL(arrowwood_open, path[1], NULL, &dataset);
  CALL(arrowwood_dataset_chunks, dataset, 2, flags, &chunks, &count, &owner);
  for (i = 0; i < count; i++) sum += add_up((const double *)chunks[i].values.data, chunks[i].rows);
  sink = sum;
  arrowwood_chunks_free(owner);
  arrowwood_dataset_free(dataset);
}

static void chunks(void) { sum_chunks(0); }

static void array_stream(void) {
  arrowwood_dataset *dataset;
  struct ArrowArrayStream stream;
  struct ArrowArray array;
  double sum = 0;
  CALL(arrowwood_open, path[1], NULL, &dataset);
  CALL(arrowwood_dataset_stream, dataset, 0, &stream);
  while (stream.get_next(&stream, &array) == 0 && array.release != NULL) {
    const struct ArrowArray *price = array.children[2];
    sum += add_up((const double *)price->buffers[1] + price->offset, (uint64_t)price->length);
    array.release(&array);
  }
  sink = sum;
  stream.release(&stream);
  arrowwood_dataset_free(dataset);
}

static void sum_of_batches(void) {
  arrowwood_dataset *dataset;
  arrowwood_value sum;
  CALL(arrowwood_open, path[1], NULL, &dataset);
  CALL(arrowwood_dataset_reduce, dataset, 2, ARROWWOOD_SUM, &sum);
  sink = sum.as.float64;
  arrowwood_dataset_free(dataset);
}

static void refresh_unchanged(void) {
  arrowwood_dataset *newer;
  CALL(arrowwood_dataset_refresh, table, &newer);
  arrowwood_dataset_free(newer);
}

static int64_t appended;

static void append_rows(int64_t rows_per_commit) {
  int64_t i;
  for (i = 0; i < 10000; i++, appended++) {
    arrowwood_value row[3];
    row[0] = arrowwood_timestamp(appended, ARROWWOOD_UNIT_MICROSECOND);
    row[1] = arrowwood_text(i % 2 ? "AAPL" : "IBM");
    row[2] = arrowwood_float64((double)i);
    CALL(arrowwood_writer_append_row, writer, row, 3);
    if (i % rows_per_commit == rows_per_commit - 1) CALL(arrowwood_writer_commit, writer, 0);
  }
}

static void append_with_commit_each(void) { append_rows(1); }
static void append_with_commit_every_100(void) { append_rows(100); }
static void append_with_one_commit(void) { append_rows(10000); }

int main(int count, char **arguments) {
  char name[4096];
  if (count != 2) return 2;
  folder = arguments[1];
  snprintf(path[0], sizeof path[0], "%s/one.stream", folder);
  snprintf(path[1], sizeof path[1], "%s/many.stream", folder);
  snprintf(name, sizeof name, "%s/c-table", folder);
  CALL(arrowwood_open, path[0], NULL, &one);
  {
    static const char *const dictionary[] = {"symbol"};
    arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
    struct ArrowSchema schema;
    options.dictionary = dictionary;
    options.dictionary_count = 1;
    options.sync = ARROWWOOD_SYNC_NEVER;
    CALL(arrowwood_schema_parse, "ts: timestamp[us] not null, symbol: utf8, price: float64", &schema);
    CALL(arrowwood_writer_open, name, &schema, &options, &writer);
    schema.release(&schema);
    CALL(arrowwood_open, name, NULL, &table);
  }
  measure("number of rows", count_rows, 10000, 101);
  measure("column that is not there (error)", missing_column, 1000, 101);
  measure("open + rows + free", open_rows, 20, 101);
  measure("open + first row + free", open_first_row, 20, 101);
  measure("open + sum of 5,600,000", open_sum, 1, 51);
  measure("any row, 3 cells", random_row, 1000, 101);
  measure("refresh, nothing new", refresh_unchanged, 1000, 101);
  measure("5,600 batches: open + stream of arrays + sum by hand", array_stream, 1, 21);
  measure("5,600 batches: open + chunks + sum by hand", chunks, 1, 21);
  measure("5,600 batches: open + sum", sum_of_batches, 1, 21);
  measure("10,000 rows appended one by one, a commit each", append_with_commit_each, 1, 31);
  measure("10,000 rows appended one by one, a commit every 100", append_with_commit_every_100, 1, 31);
  measure("10,000 rows appended one by one, one commit", append_with_one_commit, 1, 31);
  arrowwood_dataset_free(one);
  arrowwood_dataset_free(table);
  arrowwood_writer_free(writer);
  return 0;
}
