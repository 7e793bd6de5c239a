/* Passes values of a mapped file to each function that takes values, after another process truncated the file:
 * `truncated list` names the functions, `truncated FUNCTION` calls one of them in the working directory. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#define ROWS 10000
#define LAST (ROWS - 1)

/* Arguments from the truncated file: a row's values, a column's memory, a batch and a stream. */
static arrowwood_dataset *mapped;
static arrowwood_chunks *owner;
static arrowwood_value row[2];
static const int64_t *numbers;
static struct ArrowSchema schema;
static struct ArrowArray array;
static struct ArrowArrayStream stream;

/* Arguments from an intact file. */
static arrowwood_dataset *intact;

static arrowwood_dataset *build_rows(uint64_t count) {
  arrowwood_builder *builder;
  arrowwood_dataset *dataset;
  OK(arrowwood_builder_new(&schema, &builder, &error));
  for (uint64_t i = 0; i < count; i++) {
    const char *text = "a text that is long enough for the texts to lie in pages of their own";
    const arrowwood_value values[] = {arrowwood_int64(0), arrowwood_text(text)};
    OK(arrowwood_builder_append_row(builder, values, 2, &error));
  }
  OK(arrowwood_builder_finish(builder, &dataset, &error));
  return dataset;
}

/* Truncates the file in another process; its first pages remain. */
static void truncate_file(void) {
  int status;
  const pid_t other = fork();
  CHECK(other >= 0);
  if (other == 0)
    _exit(truncate("rows.arrow", 4096) != 0);
  CHECK(waitpid(other, &status, 0) == other && status == 0);
}

static void set_up(void) {
  const arrowwood_chunk *chunks;
  size_t count;
  OK(arrowwood_schema_parse("n: int64, s: utf8", &schema, &error));
  intact = build_rows(10);
  arrowwood_dataset *all = build_rows(ROWS);
  OK(arrowwood_write(all, "rows.arrow", NULL, &error));
  arrowwood_dataset_free(all);
  OK(arrowwood_open("rows.arrow", NULL, &mapped, &error));
  OK(arrowwood_dataset_cells(mapped, LAST, row, 2, &error));
  OK(arrowwood_dataset_chunks(mapped, 0, ARROWWOOD_STRUCTURE_ONLY, &chunks, &count, &owner, &error));
  CHECK(count == 1 && chunks[0].rows == ROWS);
  numbers = (const int64_t *)chunks[0].values.data + LAST - 7;
  OK(arrowwood_dataset_batch(mapped, 0, ARROWWOOD_STRUCTURE_ONLY, &array, &error));
  OK(arrowwood_dataset_stream(mapped, ARROWWOOD_STRUCTURE_ONLY, &stream, &error));
  truncate_file();
}

static void tear_down(void) {
  arrowwood_chunks_free(owner);
  arrowwood_dataset_free(mapped);
  arrowwood_dataset_free(intact);
  schema.release(&schema);
  if (array.release != NULL)
    array.release(&array);
  if (stream.release != NULL)
    stream.release(&stream);
}

#define FAILS_AS_TRUNCATED(call) FAILS(ARROWWOOD_ERROR_FILE_CHANGED, "rows.arrow", call)

static void value_double(void) {
  double number = 7;
  FAILS_AS_TRUNCATED(arrowwood_value_double(&row[1], &number, &error));
  CHECK(number == 7);
}

static void value_text(void) {
  char *text = NULL;
  FAILS_AS_TRUNCATED(arrowwood_value_text(&row[1], &text, &error));
  CHECK(text == NULL);
}

static void copy(void) {
  char place[64];
  FAILS_AS_TRUNCATED(arrowwood_copy(place, numbers, sizeof place, &error));
}

static void predicate_compare(void) {
  arrowwood_predicate *predicate = NULL;
  FAILS_AS_TRUNCATED(arrowwood_predicate_compare("s", ARROWWOOD_EQ, &row[1], &predicate, &error));
  CHECK(predicate == NULL);
}

static void predicate_in(void) {
  arrowwood_predicate *predicate = NULL;
  const arrowwood_value both[] = {arrowwood_text("other"), row[1]};
  FAILS_AS_TRUNCATED(arrowwood_predicate_in("s", both, 2, &predicate, &error));
  CHECK(predicate == NULL);
}

static arrowwood_writer *writer_sorted_by(const char *column) {
  arrowwood_writer *writer;
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  options.sorted_by = column;
  OK(arrowwood_writer_open(column == NULL ? "table" : "sorted", &schema, &options, &writer, &error));
  return writer;
}

static void dataset_between(void) {
  arrowwood_dataset *rows, *found = NULL;
  arrowwood_writer *writer = writer_sorted_by("s");
  OK(arrowwood_writer_append_dataset(writer, intact, &error));
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_open("sorted", NULL, &rows, &error));
  const arrowwood_value low = arrowwood_text("a");
  FAILS_AS_TRUNCATED(arrowwood_dataset_between(rows, &low, &row[1], &found, &error));
  FAILS_AS_TRUNCATED(arrowwood_dataset_between(rows, &row[1], &low, &found, &error));
  CHECK(found == NULL);
  arrowwood_dataset_free(rows);
}

/* Checks that a refused row is not appended, and that the writer remains usable. */
static void check_committed_rows(arrowwood_writer *writer, const char *path, uint64_t expected) {
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  arrowwood_dataset *rows;
  uint64_t count;
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.rows == expected);
  OK(arrowwood_writer_append_dataset(writer, intact, &error));
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_open(path, NULL, &rows, &error));
  OK(arrowwood_dataset_num_rows(rows, &count, &error));
  CHECK(count == expected + 10);
  OK(arrowwood_dataset_validate(rows, NULL, NULL, &error));
  arrowwood_dataset_free(rows);
}

static void writer_append_row(void) {
  const char *const orders[] = {NULL, "s"};
  for (int i = 0; i < 2; i++) {
    arrowwood_writer *writer = writer_sorted_by(orders[i]);
    arrowwood_value first[] = {arrowwood_int64(1), arrowwood_text("a")};
    OK(arrowwood_writer_append_row(writer, first, 2, &error));
    FAILS_AS_TRUNCATED(arrowwood_writer_append_row(writer, row, 2, &error));
    check_committed_rows(writer, i == 0 ? "table" : "sorted", 1);
  }
}

static void writer_append(void) {
  arrowwood_writer *writer = writer_sorted_by(NULL);
  FAILS_AS_TRUNCATED(arrowwood_writer_append(writer, &array, &schema, &error));
  CHECK(array.release == NULL);
  check_committed_rows(writer, "table", 0);
}

/* Columns with the numbers, the text or the validity of the file, each together with an intact one. */
static const int64_t sound_numbers[8];
static const struct {
  int is_number, is_text, is_valid, is_offset;
} lost_parts[] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
#define PARTS (sizeof lost_parts / sizeof *lost_parts)

static void fill_columns(arrowwood_column columns[2], int64_t offsets[9], size_t part) {
  const arrowwood_column none = ARROWWOOD_COLUMN_INIT;
  columns[0] = columns[1] = none;
  columns[0].values = lost_parts[part].is_number ? numbers : sound_numbers;
  columns[0].size = sizeof sound_numbers;
  columns[1].values = row[1].as.text;
  columns[1].size = row[1].length;
  columns[1].offsets = offsets;
  columns[1].offset_count = 9;
  for (int i = 0; i < 9; i++)
    offsets[i] = lost_parts[part].is_text && i == 8 ? (int64_t)row[1].length : 0;
  if (lost_parts[part].is_valid) {
    columns[0].valid = (const uint8_t *)numbers;
    columns[0].valid_count = 8;
  }
  if (lost_parts[part].is_offset)
    columns[1].offsets = numbers - 1;
}

static void writer_append_columns(void) {
  arrowwood_column columns[2];
  int64_t offsets[9];
  for (size_t part = 0; part < PARTS; part++) {
    arrowwood_writer *writer = writer_sorted_by(NULL);
    fill_columns(columns, offsets, part);
    FAILS_AS_TRUNCATED(arrowwood_writer_append_columns(writer, 8, columns, 2, &error));
    check_committed_rows(writer, "table", 10 * part);
  }
}

/* A failed stream has its own message, and no error code of this library. */
static int is_stream_error(int32_t code, const arrowwood_error *failure) {
  const int is_known = code == ARROWWOOD_ERROR_FILE_CHANGED || code == ARROWWOOD_ERROR_INVALID_ARGUMENT;
  return is_known && strstr(failure->message, "rows.arrow") != NULL;
}

static void writer_append_stream(void) {
  arrowwood_writer *writer = writer_sorted_by(NULL);
  arrowwood_error failure = ARROWWOOD_ERROR_INIT;
  CHECK(is_stream_error(arrowwood_writer_append_stream(writer, &stream, &failure), &failure));
  arrowwood_error_clear(&failure);
  CHECK(stream.release == NULL);
  check_committed_rows(writer, "table", 0);
}

static void check_builder(arrowwood_builder *builder, uint64_t expected) {
  arrowwood_dataset *made;
  uint64_t count;
  OK(arrowwood_builder_rows(builder, &count, &error));
  CHECK(count == expected);
  OK(arrowwood_builder_finish(builder, &made, &error));
  OK(arrowwood_dataset_validate(made, NULL, NULL, &error));
  arrowwood_dataset_free(made);
}

static void builder_append_row(void) {
  arrowwood_builder *builder;
  OK(arrowwood_builder_new(&schema, &builder, &error));
  FAILS_AS_TRUNCATED(arrowwood_builder_append_row(builder, row, 2, &error));
  OK(arrowwood_builder_append_dataset(builder, intact, &error));
  FAILS_AS_TRUNCATED(arrowwood_builder_append_row(builder, row, 2, &error));
  check_builder(builder, 10);
}

static void builder_append_columns(void) {
  arrowwood_column columns[2];
  int64_t offsets[9];
  for (size_t part = 0; part < PARTS; part++) {
    arrowwood_builder *builder;
    OK(arrowwood_builder_new(&schema, &builder, &error));
    fill_columns(columns, offsets, part);
    FAILS_AS_TRUNCATED(arrowwood_builder_append_columns(builder, 8, columns, 2, &error));
    check_builder(builder, 0);
  }
}

static void builder_append(void) {
  arrowwood_builder *builder;
  OK(arrowwood_builder_new(&schema, &builder, &error));
  FAILS_AS_TRUNCATED(arrowwood_builder_append(builder, &array, &schema, &error));
  check_builder(builder, 0);
}

/* Imports are in place, so a read may be the first to notice the truncation. */
static void check_imported_is_lost(int32_t code, arrowwood_dataset *imported, arrowwood_error *failure) {
  if (code == 0) {
    FAILS_AS_TRUNCATED(arrowwood_dataset_validate(imported, NULL, NULL, &error));
    arrowwood_dataset_free(imported);
  } else {
    CHECK(is_stream_error(code, failure));
    arrowwood_error_clear(failure);
  }
}

static void import_array(void) {
  arrowwood_dataset *imported = NULL;
  arrowwood_error failure = ARROWWOOD_ERROR_INIT;
  const int32_t code = arrowwood_import_array(&array, &schema, &imported, &failure);
  check_imported_is_lost(code, imported, &failure);
}

static void import_stream(void) {
  arrowwood_dataset *imported = NULL;
  arrowwood_error failure = ARROWWOOD_ERROR_INIT;
  const int32_t code = arrowwood_import_stream(&stream, &imported, &failure);
  check_imported_is_lost(code, imported, &failure);
}

static void open_memory(void) {
  arrowwood_dataset *dataset = NULL;
  arrowwood_open_options options = ARROWWOOD_OPEN_OPTIONS_INIT;
  FAILS_AS_TRUNCATED(arrowwood_open_memory(numbers, 64, NULL, NULL, NULL, &dataset, &error));
  options.copy = 1;
  FAILS_AS_TRUNCATED(arrowwood_open_memory(numbers, 64, NULL, NULL, &options, &dataset, &error));
  CHECK(dataset == NULL);
}

static void dataset_take(void) {
  arrowwood_dataset *taken = NULL;
  FAILS_AS_TRUNCATED(arrowwood_dataset_take(intact, numbers, 8, &taken, &error));
  CHECK(taken == NULL);
}

static void dataset_select(void) {
  arrowwood_dataset *selected = NULL;
  FAILS_AS_TRUNCATED(arrowwood_dataset_select(intact, (const size_t *)numbers, 1, &selected, &error));
  CHECK(selected == NULL);
}

static void dataset_value(void) {
  arrowwood_value value = arrowwood_null();
  FAILS_AS_TRUNCATED(arrowwood_dataset_value(intact, 0, (const uint64_t *)numbers, 1, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_NULL);
}

static const struct {
  const char *name;
  void (*call)(void);
} cases[] = {
  {"arrowwood_value_double", value_double},
  {"arrowwood_value_text", value_text},
  {"arrowwood_copy", copy},
  {"arrowwood_open_memory", open_memory},
  {"arrowwood_import_array", import_array},
  {"arrowwood_import_stream", import_stream},
  {"arrowwood_dataset_select", dataset_select},
  {"arrowwood_dataset_value", dataset_value},
  {"arrowwood_dataset_take", dataset_take},
  {"arrowwood_dataset_between", dataset_between},
  {"arrowwood_predicate_compare", predicate_compare},
  {"arrowwood_predicate_in", predicate_in},
  {"arrowwood_writer_append", writer_append},
  {"arrowwood_writer_append_stream", writer_append_stream},
  {"arrowwood_writer_append_row", writer_append_row},
  {"arrowwood_writer_append_columns", writer_append_columns},
  {"arrowwood_builder_append", builder_append},
  {"arrowwood_builder_append_row", builder_append_row},
  {"arrowwood_builder_append_columns", builder_append_columns},
};

int main(int count, char **arguments) {
  CHECK(count == 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strcmp(arguments[1], "list") == 0)
      printf("%s\n", cases[i].name);
    if (strcmp(arguments[1], cases[i].name) == 0) {
      set_up();
      cases[i].call();
      tear_down();
      printf("%s is safe\n", cases[i].name);
    }
  }
  return 0;
}
