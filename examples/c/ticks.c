/* Appends to a table in one process, and follows it in others.
 *
 *   cc ticks.c $(pkg-config --cflags --libs arrowwood) -o ticks
 *   ./ticks append ticks 1000 & ./ticks follow ticks 1000
 */
#include <arrowwood.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_error(arrowwood_error *error) {
  fprintf(stderr, "%s\n", error->message);
  arrowwood_error_clear(error);
  return 1;
}

/* Opens a table for writing, and creates it if there is none. */
static int open_writer(const char *path, arrowwood_writer **writer, arrowwood_error *error) {
  static const char *const dictionary[] = {"symbol"};
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  struct ArrowSchema schema;
  int code;
  options.sorted_by = "ts";
  options.dictionary = dictionary;
  options.dictionary_count = 1;
  if (arrowwood_schema_parse("ts: timestamp[us] not null, symbol: utf8, price: float64", &schema, error)) return 1;
  code = arrowwood_writer_open(path, &schema, &options, writer, error);
  schema.release(&schema);
  return code;
}

static int append(const char *path, long long rows) {
  static const char *const symbols[] = {"AAPL", "IBM", "MSFT"};
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  arrowwood_writer *writer;
  long long n;
  if (open_writer(path, &writer, &error)) return print_error(&error);
  for (n = 0; n < rows; n++) {
    arrowwood_value row[3];
    row[0] = arrowwood_timestamp(n, ARROWWOOD_UNIT_MICROSECOND);
    row[1] = arrowwood_text(symbols[n % 3]);
    row[2] = arrowwood_float64(100 + (double)(n % 50));
    /* Commits ten rows at once, so that readers never see a part of them. */
    if (arrowwood_writer_append_row(writer, row, 3, &error) ||
        (n % 10 == 9 && arrowwood_writer_commit(writer, 0, &error))) {
      arrowwood_writer_free(writer);
      return print_error(&error);
    }
  }
  return arrowwood_writer_close(writer, &error) ? print_error(&error) : 0; /* commits, and writes all rows to the disk */
}

static int follow(const char *path, unsigned long long row_count) {
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  arrowwood_dataset *table, *rows;
  arrowwood_follower *follower;
  unsigned long long seen = 0;
  double total = 0;
  int code;
  if (arrowwood_open(path, NULL, &table, &error)) return print_error(&error);
  code = arrowwood_follow(table, 0, &follower, &error);
  arrowwood_dataset_free(table);
  if (code) return print_error(&error);
  while (seen < row_count) {
    arrowwood_value sum;
    uint64_t count;
    if (arrowwood_follower_next(follower, 10000, &rows, &error)) break;
    if (rows == NULL) {
      fprintf(stderr, "no rows for ten seconds\n");
      break;
    }
    code = arrowwood_dataset_num_rows(rows, &count, &error) ||
           arrowwood_dataset_reduce(rows, 2, ARROWWOOD_SUM, &sum, &error);
    arrowwood_dataset_free(rows);
    if (code) break;
    seen += count;
    total += sum.as.float64;
  }
  arrowwood_follower_free(follower);
  if (seen < row_count) return error.message == NULL ? 1 : print_error(&error);
  printf("%llu rows, mean %.3f\n", seen, total / (double)seen);
  return 0;
}

int main(int count, char **arguments) {
  if (count == 4 && strcmp(arguments[1], "append") == 0) return append(arguments[2], atoll(arguments[3]));
  if (count == 4 && strcmp(arguments[1], "follow") == 0) return follow(arguments[2], strtoull(arguments[3], NULL, 10));
  fprintf(stderr, "ticks append|follow TABLE ROWS\n");
  return 2;
}
