/* Prints the rows of files, one line of JSON for each, in the spelling of examples/samples:
 *   dump cells|value|stream|array|chunks FLAGS FILE...
 * read through the named interface. FLAGS is a number of enum arrowwood_flags. */
#include "check.h"
#include "decode.h"

static void write_error(FILE *out, arrowwood_error *error) {
  fputs(",\"error\":", out);
  write_text(out, error->message, strlen(error->message));
  arrowwood_error_clear(error);
}

/* ---- by values ---- */

static int write_value(FILE *out, const arrowwood_dataset *dataset, uint64_t row, const struct ArrowSchema *type,
                       uint64_t *path, size_t depth, const arrowwood_value *value, arrowwood_error *error);

/* Reads the item, member or entry `number` of the value at `path`. */
static int write_inside(FILE *out, const arrowwood_dataset *dataset, uint64_t row, const struct ArrowSchema *type,
                        uint64_t *path, size_t depth, uint64_t number, arrowwood_error *error) {
  arrowwood_value value;
  int code;
  path[depth] = number;
  code = arrowwood_dataset_value(dataset, row, path, depth + 1, &value, error);
  return code ? code : write_value(out, dataset, row, type, path, depth + 1, &value, error);
}

static int write_value(FILE *out, const arrowwood_dataset *dataset, uint64_t row, const struct ArrowSchema *type,
                       uint64_t *path, size_t depth, const arrowwood_value *value, arrowwood_error *error) {
  static const char UNITS[] = "smun";
  uint64_t i;
  int64_t member;
  int code = 0;
  while (type->dictionary != NULL) type = type->dictionary;
  if (strcmp(type->format, "+r") == 0) type = type->children[1];
  while (type->dictionary != NULL) type = type->dictionary;
  CHECK(depth < 60);
  switch (value->kind) {
    case ARROWWOOD_KIND_NULL: fputs("null", out); break;
    case ARROWWOOD_KIND_BOOL: fputs(value->as.int64 ? "true" : "false", out); break;
    case ARROWWOOD_KIND_INT64: fprintf(out, "\"%lld\"", (long long)value->as.int64); break;
    case ARROWWOOD_KIND_UINT64: fprintf(out, "\"%llu\"", (unsigned long long)value->as.uint64); break;
    case ARROWWOOD_KIND_FLOAT32:
    case ARROWWOOD_KIND_FLOAT64: write_double(out, value->as.float64); break;
    case ARROWWOOD_KIND_DECIMAL: write_decimal(out, value->as.words, value->unit); break;
    case ARROWWOOD_KIND_TEXT: write_text(out, value->as.text, value->length); break;
    case ARROWWOOD_KIND_UUID:
    case ARROWWOOD_KIND_BYTES: write_hex(out, value->as.bytes, value->length); break;
    case ARROWWOOD_KIND_DATE: fprintf(out, "\"date %lld\"", (long long)value->as.int64); break;
    case ARROWWOOD_KIND_TIME: write_time(out, "time", value->as.int64, UNITS[value->unit], NULL, 0); break;
    case ARROWWOOD_KIND_DURATION: write_time(out, "duration", value->as.int64, UNITS[value->unit], NULL, 0); break;
    case ARROWWOOD_KIND_TIMESTAMP:
      write_time(out, "timestamp", value->as.timestamp.count, UNITS[value->unit], value->as.timestamp.zone,
                 value->length);
      break;
    case ARROWWOOD_KIND_INTERVAL:
      fprintf(out, "\"interval %d %d %lld\"", value->as.interval.months, value->as.interval.days,
              (long long)value->as.interval.nanoseconds);
      break;
    case ARROWWOOD_KIND_LIST:
    case ARROWWOOD_KIND_MAP:
      fputc('[', out);
      for (i = 0; i < value->length && code == 0; i++) {
        if (i > 0) fputc(',', out);
        if (value->kind == ARROWWOOD_KIND_LIST) {
          code = write_inside(out, dataset, row, type->children[0], path, depth, i, error);
          continue;
        }
        path[depth] = i;
        fputc('[', out);
        code = write_inside(out, dataset, row, type->children[0]->children[0], path, depth + 1, 0, error);
        fputc(',', out);
        if (code == 0) code = write_inside(out, dataset, row, type->children[0]->children[1], path, depth + 1, 1, error);
        fputc(']', out);
      }
      fputc(']', out);
      break;
    case ARROWWOOD_KIND_STRUCT:
      fputc('{', out);
      for (i = 0; i < value->length && code == 0; i++) {
        if (i > 0) fputc(',', out);
        write_text(out, type->children[i]->name, strlen(type->children[i]->name));
        fputc(':', out);
        code = write_inside(out, dataset, row, type->children[i], path, depth, i, error);
      }
      fputc('}', out);
      break;
    case ARROWWOOD_KIND_UNION:
      fputc('{', out);
      write_text(out, value->as.text, value->length);
      fputc(':', out);
      for (member = 0; member < type->n_children; member++) {
        const char *name = type->children[member]->name;
        if (strlen(name) == value->length && memcmp(name, value->as.text, value->length) == 0) break;
      }
      CHECK(member < type->n_children);
      code = write_inside(out, dataset, row, type->children[member], path, depth, 0, error);
      fputc('}', out);
      break;
    default: CHECK(0);
  }
  return code;
}

static int dump_values(FILE *out, const arrowwood_dataset *dataset, const struct ArrowSchema *schema, int whole_rows,
                     arrowwood_error *error) {
  uint64_t rows, row, path[64];
  size_t columns = (size_t)schema->n_children, column;
  arrowwood_value *cells = (arrowwood_value *)calloc(columns + 1, sizeof *cells);
  int code = arrowwood_dataset_num_rows(dataset, &rows, error);
  fputs(",\"rows\":[", out);
  for (row = 0; row < rows && code == 0; row++) {
    fputs(row ? ",[" : "[", out);
    if (whole_rows) code = arrowwood_dataset_cells(dataset, row, cells, columns, error);
    for (column = 0; column < columns && code == 0; column++) {
      if (column > 0) fputc(',', out);
      path[0] = column;
      if (!whole_rows) code = arrowwood_dataset_value(dataset, row, path, 1, &cells[column], error);
      if (code == 0) code = write_value(out, dataset, row, schema->children[column], path, 1, &cells[column], error);
    }
    fputc(']', out);
  }
  fputc(']', out);
  free(cells);
  return code;
}

/* ---- by arrays ---- */

static const char *write_rows(FILE *out, const struct ArrowSchema *schema, const arrowwood_chunk *batch, int *count) {
  const char *damaged = NULL;
  uint64_t row, column;
  for (row = 0; row < batch->rows && damaged == NULL; row++) {
    fputs((*count)++ ? ",[" : "[", out);
    for (column = 0; column < batch->child_count && damaged == NULL; column++) {
      if (column > 0) fputc(',', out);
      damaged = decode(out, schema->children[column], &batch->children[column], row);
    }
    fputc(']', out);
  }
  return damaged;
}

static const char *write_array(FILE *out, const struct ArrowSchema *schema, struct ArrowArray *array, int *count) {
  arrowwood_chunk batch = make_chunk(schema, array);
  const char *damaged = write_rows(out, schema, &batch, count);
  free_chunk(&batch);
  array->release(array);
  return damaged;
}

static int dump_stream(FILE *out, arrowwood_dataset *dataset, const struct ArrowSchema *schema, uint32_t flags,
                     arrowwood_error *error) {
  struct ArrowArrayStream stream;
  struct ArrowSchema stream_schema;
  struct ArrowArray array;
  const char *damaged = NULL;
  int count = 0, code = arrowwood_dataset_stream(dataset, flags, &stream, error);
  arrowwood_dataset_free(dataset); /* the stream outlives the dataset */
  if (code != 0) return code;
  CHECK(stream.get_schema(&stream, &stream_schema) == 0);
  CHECK(stream_schema.n_children == schema->n_children);
  fputs(",\"rows\":[", out);
  while (damaged == NULL) {
    code = stream.get_next(&stream, &array);
    if (code != 0 || array.release == NULL) break;
    damaged = write_array(out, &stream_schema, &array, &count);
  }
  fputc(']', out);
  if (damaged != NULL) fprintf(out, ",\"error\":\"%s\"", damaged);
  if (code != 0) {
    fputs(",\"error\":", out);
    write_text(out, stream.get_last_error(&stream), strlen(stream.get_last_error(&stream)));
  }
  stream.release(&stream);
  stream_schema.release(&stream_schema);
  return 0;
}

static int dump_arrays(FILE *out, const arrowwood_dataset *dataset, const struct ArrowSchema *schema, uint32_t flags,
                     arrowwood_error *error) {
  struct ArrowArray array;
  const char *damaged = NULL;
  size_t batches, batch;
  int count = 0, code = arrowwood_dataset_num_batches(dataset, &batches, error);
  fputs(",\"rows\":[", out);
  for (batch = 0; code == 0 && batch < batches && damaged == NULL; batch++) {
    code = arrowwood_dataset_batch(dataset, batch, flags, &array, error);
    if (code == 0) damaged = write_array(out, schema, &array, &count);
  }
  fputc(']', out);
  if (damaged != NULL) fprintf(out, ",\"error\":\"%s\"", damaged);
  return code;
}

/* ---- by chunks ---- */

static int dump_chunks(FILE *out, arrowwood_dataset *dataset, const struct ArrowSchema *schema, uint32_t flags,
                     arrowwood_error *error) {
  size_t columns = (size_t)schema->n_children, column, counted = 0, chunk;
  const arrowwood_chunk **tables = (const arrowwood_chunk **)calloc(columns + 1, sizeof *tables);
  arrowwood_chunks **owners = (arrowwood_chunks **)calloc(columns + 1, sizeof *owners);
  const char *damaged = NULL;
  uint64_t first_row = 0;
  int count = 0, code = 0;
  for (column = 0; column < columns && code == 0; column++) {
    code = arrowwood_dataset_chunks(dataset, column, flags, &tables[column], &counted, &owners[column], error);
  }
  arrowwood_dataset_free(dataset); /* the chunks outlive the dataset */
  fputs(",\"rows\":[", out);
  for (chunk = 0; chunk < counted && code == 0 && damaged == NULL; chunk++) {
    arrowwood_chunk batch, *children = (arrowwood_chunk *)calloc(columns, sizeof *children);
    memset(&batch, 0, sizeof batch);
    for (column = 0; column < columns; column++) children[column] = tables[column][chunk];
    batch.rows = tables[0][chunk].rows;
    batch.children = children;
    batch.child_count = columns;
    CHECK(tables[0][chunk].first_row == first_row);
    first_row += batch.rows;
    damaged = write_rows(out, schema, &batch, &count);
    free(children);
  }
  fputc(']', out);
  if (damaged != NULL) fprintf(out, ",\"error\":\"%s\"", damaged);
  for (column = 0; column < columns; column++) arrowwood_chunks_free(owners[column]);
  free((void *)tables);
  free(owners);
  return code;
}

static int dump(FILE *out, const char *way, uint32_t flags, const char *path, arrowwood_error *error) {
  arrowwood_dataset *dataset;
  struct ArrowSchema schema;
  int code = arrowwood_open(path, NULL, &dataset, error);
  if (code != 0) return code;
  code = arrowwood_dataset_schema(dataset, &schema, error);
  if (code != 0) {
    arrowwood_dataset_free(dataset);
    return code;
  }
  if (strcmp(way, "stream") == 0) {
    code = dump_stream(out, dataset, &schema, flags, error);
  } else if (strcmp(way, "chunks") == 0) {
    code = dump_chunks(out, dataset, &schema, flags, error);
  } else {
    code = strcmp(way, "array") == 0 ? dump_arrays(out, dataset, &schema, flags, error)
                                     : dump_values(out, dataset, &schema, strcmp(way, "cells") == 0, error);
    arrowwood_dataset_free(dataset);
  }
  schema.release(&schema);
  return code;
}

int main(int count, char **arguments) {
  int i;
  for (i = 3; i < count; i++) {
    arrowwood_error error = ARROWWOOD_ERROR_INIT;
    const char *name = strrchr(arguments[i], '/') + 1;
    fputs("{\"file\":", stdout);
    write_text(stdout, name, strlen(name));
    if (dump(stdout, arguments[1], (uint32_t)atoi(arguments[2]), arguments[i], &error) != 0) write_error(stdout, &error);
    fputs("}\n", stdout);
  }
  return 0;
}
