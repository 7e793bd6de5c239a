/* Lists the operations that work with the types of files: `matrix FOLDER FILE...` prints a line of JSON for each file,
 * and writes to FOLDER:
 * NAME.copy.arrow and NAME.copy.stream, and the tables NAME.all (appended as a dataset) and NAME.each (row by row). */
#include "check.h"

#include <limits.h>

/* The address ranges of a file's mappings in this process. */
static struct {
  unsigned long long low, high;
} ranges[64];
static size_t range_count;

static void find_ranges(const char *path) {
  char real[PATH_MAX], line[2 * PATH_MAX], name[PATH_MAX];
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL && realpath(path, real) != NULL);
  range_count = 0;
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long long low, high;
    if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %4095s", &low, &high, name) == 3 && strcmp(name, real) == 0) {
      CHECK(range_count < sizeof ranges / sizeof *ranges);
      ranges[range_count].low = low;
      ranges[range_count++].high = high;
    }
  }
  fclose(maps);
  CHECK(range_count > 0); /* else nothing is mapped */
}

static int is_mapped(arrowwood_buffer buffer) {
  const unsigned long long low = (unsigned long long)(uintptr_t)buffer.data;
  size_t i;
  if (buffer.size == 0) return 1;
  for (i = 0; i < range_count; i++) {
    if (ranges[i].low <= low && low + buffer.size <= ranges[i].high) return 1;
  }
  return 0;
}

static int is_in_place(const arrowwood_chunk *chunk) {
  uint64_t i;
  int all = is_mapped(chunk->validity) && is_mapped(chunk->values) && is_mapped(chunk->offsets) &&
            is_mapped(chunk->sizes) && is_mapped(chunk->data);
  for (i = 0; i < chunk->variadic_count; i++) all = all && is_mapped(chunk->variadic[i]);
  for (i = 0; i < chunk->child_count; i++) all = all && is_in_place(&chunk->children[i]);
  return all && (chunk->dictionary == NULL || is_in_place(chunk->dictionary));
}

static int column_is_in_place(const arrowwood_dataset *dataset) {
  const arrowwood_chunk *chunks;
  arrowwood_chunks *owner;
  size_t count, i;
  int all = 1;
  OK(arrowwood_dataset_chunks(dataset, 0, ARROWWOOD_STRUCTURE_ONLY, &chunks, &count, &owner, &error));
  for (i = 0; i < count; i++) all = all && is_in_place(&chunks[i]);
  arrowwood_chunks_free(owner);
  return all;
}

static const char *path_in(const char *folder, const char *name, const char *what) {
  static char path[PATH_MAX];
  const char *slash = strrchr(name, '/');
  CHECK((size_t)snprintf(path, sizeof path, "%s/%s.%s", folder, slash ? slash + 1 : name, what) < sizeof path);
  return path;
}

static void write_copies(const arrowwood_dataset *dataset, const char *folder, const char *name) {
  arrowwood_write_options options = ARROWWOOD_WRITE_OPTIONS_INIT;
  OK(arrowwood_write(dataset, path_in(folder, name, "copy.arrow"), NULL, &error));
  options.format = ARROWWOOD_FORMAT_STREAM;
  options.compression = ARROWWOOD_COMPRESSION_ZSTD;
  OK(arrowwood_write(dataset, path_in(folder, name, "copy.stream"), &options, &error));
}

static int append_row_by_row(arrowwood_writer *writer, const arrowwood_dataset *dataset, arrowwood_error *error) {
  arrowwood_value cells[16];
  uint64_t rows, row;
  size_t columns;
  OK(arrowwood_dataset_num_rows(dataset, &rows, &error));
  OK(arrowwood_dataset_num_columns(dataset, &columns, &error));
  CHECK(columns <= 16);
  for (row = 0; row < rows; row++) {
    int32_t code;
    OK(arrowwood_dataset_cells(dataset, row, cells, columns, &error));
    code = arrowwood_writer_append_row(writer, cells, columns, error);
    if (code) return code;
  }
  return 0;
}

/* Returns whether a table accepts the rows; a refusal must say that the type or the operation is not supported. */
static int is_appended(const arrowwood_dataset *dataset, const char *path, int each) {
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  arrowwood_writer *writer;
  struct ArrowSchema schema;
  int32_t code;
  OK(arrowwood_dataset_schema(dataset, &schema, &error));
  code = arrowwood_writer_open(path, &schema, NULL, &writer, &error);
  schema.release(&schema);
  if (code == 0) {
    code = each ? append_row_by_row(writer, dataset, &error) : arrowwood_writer_append_dataset(writer, dataset, &error);
    if (code == 0) {
      OK(arrowwood_writer_close(writer, &error));
      return 1;
    }
    arrowwood_writer_free(writer);
  }
  if (code != ARROWWOOD_ERROR_UNSUPPORTED && !(each && code == ARROWWOOD_ERROR_INVALID_ARGUMENT)) {
    fprintf(stderr, "%s: %d %s\n", path, (int)code, error.message);
    exit(1);
  }
  arrowwood_error_clear(&error);
  return 0;
}

int main(int count, char **arguments) {
  const char *folder = arguments[1];
  int i;
  CHECK(count > 2);
  for (i = 2; i < count; i++) {
    const char *name = arguments[i], *slash = strrchr(name, '/');
    arrowwood_dataset *dataset;
    int in_place, all, each;
    OK(arrowwood_open(name, NULL, &dataset, &error));
    find_ranges(name);
    in_place = column_is_in_place(dataset);
    write_copies(dataset, folder, name);
    all = is_appended(dataset, path_in(folder, name, "all"), 0);
    each = is_appended(dataset, path_in(folder, name, "each"), 1);
    printf("{\"file\":\"%s\",\"in_place\":%d,\"all\":%d,\"each\":%d}\n", slash ? slash + 1 : name, in_place, all, each);
    arrowwood_dataset_free(dataset);
  }
  return 0;
}
