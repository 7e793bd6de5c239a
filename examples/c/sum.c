/* Opens Arrow data in place and sums a column, with the library and by hand.
 *
 *   cc sum.c $(pkg-config --cflags --libs arrowwood) -o sum && ./sum prices.arrow price
 */
#include <arrowwood.h>

#include <stdio.h>
#include <string.h>

static int print_error(arrowwood_error *error) {
  fprintf(stderr, "%s\n", error->message);
  arrowwood_error_clear(error);
  return 1;
}

/* Sums by hand: reads the values in the mapped file, batch by batch. */
static int sum_by_hand(const arrowwood_dataset *dataset, size_t column, arrowwood_error *error) {
  const arrowwood_chunk *chunks;
  arrowwood_chunks *owner;
  size_t count, chunk;
  uint64_t row;
  double sum = 0;
  if (arrowwood_dataset_chunks(dataset, column, ARROWWOOD_ALIGNED, &chunks, &count, &owner, error)) return 1;
  for (chunk = 0; chunk < count; chunk++) {
    const double *values = (const double *)chunks[chunk].values.data;
    for (row = 0; row < chunks[chunk].rows; row++) {
      if (chunks[chunk].null_count == 0 || arrowwood_chunk_is_valid(&chunks[chunk], row)) sum += values[row];
    }
  }
  printf("%.17g by hand, in %zu batches\n", sum, count);
  arrowwood_chunks_free(owner);
  return 0;
}

/* Returns whether a column holds 64-bit floats: "g" in Arrow's C data interface. */
static int is_double(const arrowwood_dataset *dataset, size_t column, int *result, arrowwood_error *error) {
  struct ArrowSchema schema;
  if (arrowwood_dataset_schema(dataset, &schema, error)) return 1;
  *result = strcmp(schema.children[column]->format, "g") == 0;
  schema.release(&schema);
  return 0;
}

static int sum(const arrowwood_dataset *dataset, const char *name, arrowwood_error *error) {
  arrowwood_value value;
  uint64_t rows;
  size_t column;
  double number;
  int has_doubles;
  if (arrowwood_dataset_column_index(dataset, name, &column, error)) return 1;
  if (arrowwood_dataset_num_rows(dataset, &rows, error)) return 1;
  if (arrowwood_dataset_reduce(dataset, column, ARROWWOOD_SUM, &value, error)) return 1;
  if (arrowwood_value_double(&value, &number, error)) return 1;
  printf("%.17g is the sum of %llu values\n", number, (unsigned long long)rows);
  if (is_double(dataset, column, &has_doubles, error)) return 1;
  return has_doubles ? sum_by_hand(dataset, column, error) : 0;
}

int main(int count, char **arguments) {
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  arrowwood_dataset *dataset;
  int code;
  if (count != 3) {
    fprintf(stderr, "sum FILE COLUMN\n");
    return 2;
  }
  if (arrowwood_open(arguments[1], NULL, &dataset, &error)) return print_error(&error);
  code = sum(dataset, arguments[2], &error);
  arrowwood_dataset_free(dataset);
  return code ? print_error(&error) : 0;
}
