/* Appends columns of C values to tables and builders: each width, text, nulls, and invalid columns.
 * `columns FOLDER` */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <stdbool.h>

#define SCHEMA                                                                                                     \
  "ts: timestamp[us] not null, symbol: category, price: float64, big: bool, note: large_utf8, raw: binary, "       \
  "cents: decimal128(38, 2), day: date32, nothing: null, tiny: int8, view: utf8_view"
#define COLUMNS 11
#define ROWS 3

static const int64_t ts[ROWS] = {1, 2, 3}, symbols[ROWS + 1] = {0, 4, 8, 11}, notes[ROWS + 1] = {0, 0, 5, 6};
static const double prices[ROWS] = {1.5, -0.0, 2.5};
static const bool flags[ROWS] = {true, false, true};
static const int32_t days[ROWS] = {-1, 0, 19000};
static const int8_t tinies[ROWS] = {-128, 0, 127};
static const uint8_t middle_is_null[ROWS] = {1, 0, 255};
static uint64_t cents[2 * ROWS] = {123, 0, 0, 0, 0, 1};

static arrowwood_column fixed_column(const void *values, size_t size) {
  arrowwood_column column = ARROWWOOD_COLUMN_INIT;
  column.values = values;
  column.size = size;
  return column;
}

static arrowwood_column text_column(const char *bytes, const int64_t *offsets) {
  arrowwood_column column = fixed_column(bytes, (size_t)offsets[ROWS]);
  column.offsets = offsets;
  column.offset_count = ROWS + 1;
  return column;
}

static arrowwood_column with_null(arrowwood_column column) {
  column.valid = middle_is_null;
  column.valid_count = ROWS;
  return column;
}

static void fill_columns(arrowwood_column *columns) {
  const arrowwood_column none = ARROWWOOD_COLUMN_INIT;
  columns[0] = fixed_column(ts, sizeof ts);
  columns[1] = text_column("AAPLAAPLIBM", symbols);
  columns[2] = with_null(fixed_column(prices, sizeof prices));
  columns[3] = with_null(fixed_column(flags, sizeof flags));
  columns[4] = text_column("h\xc3\xb6ll!", notes);
  columns[5] = with_null(text_column("\xff\xfe\x00\x01!!", notes));
  columns[6] = fixed_column(cents, sizeof cents);
  columns[7] = fixed_column(days, sizeof days);
  columns[8] = none;
  columns[9] = fixed_column(tinies, sizeof tinies);
  columns[10] = text_column("AAPLAAPLIBM", symbols);
}

static const char *const expected_texts[ROWS][COLUMNS] = {
  {"", "AAPL", "1.5", "true", "", "0x", "1.23", "1969-12-31", "null", "-128", "AAPL"},
  {"", "AAPL", "null", "null", "h\xc3\xb6ll", "null", "0.00", "1970-01-01", "null", "0", "AAPL"},
  {"", "IBM", "2.5", "true", "!", "0x21", "184467440737095516.16", "2022-01-08", "null", "127", "IBM"},
};

static void check_rows(const arrowwood_dataset *dataset, uint64_t times) {
  uint64_t rows;
  OK(arrowwood_dataset_num_rows(dataset, &rows, &error));
  CHECK(rows == ROWS * times);
  OK(arrowwood_dataset_validate(dataset, NULL, NULL, &error));
  for (uint64_t row = 0; row < rows; row++) {
    arrowwood_value cells[COLUMNS];
    OK(arrowwood_dataset_cells(dataset, row, cells, COLUMNS, &error));
    CHECK(cells[0].as.timestamp.count == ts[row % ROWS]);
    for (int column = 1; column < COLUMNS; column++) {
      char *text;
      OK(arrowwood_value_text(&cells[column], &text, &error));
      if (strcmp(text, expected_texts[row % ROWS][column]) != 0) {
        fprintf(stderr, "column %d: %s instead of %s\n", column, text, expected_texts[row % ROWS][column]);
        exit(1);
      }
      arrowwood_string_free(text);
    }
  }
}

static struct ArrowSchema parse_schema(const char *text) {
  struct ArrowSchema schema;
  OK(arrowwood_schema_parse(text, &schema, &error));
  return schema;
}

static void test_append_columns_to_table(const char *folder) {
  char path[4096];
  arrowwood_column columns[COLUMNS];
  arrowwood_writer *writer;
  arrowwood_dataset *table;
  struct ArrowSchema schema = parse_schema(SCHEMA);
  snprintf(path, sizeof path, "%s/table", folder);
  fill_columns(columns);
  OK(arrowwood_writer_open(path, &schema, NULL, &writer, &error));
  schema.release(&schema);
  OK(arrowwood_writer_append_columns(writer, ROWS, columns, COLUMNS, &error));
  OK(arrowwood_writer_append_columns(writer, ROWS, columns, COLUMNS, &error));
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_open(path, NULL, &table, &error));
  check_rows(table, 2);
  arrowwood_dataset_free(table);
}

static void test_append_columns_to_builder(void) {
  arrowwood_column columns[COLUMNS];
  arrowwood_builder *builder;
  arrowwood_dataset *built;
  struct ArrowSchema schema = parse_schema(SCHEMA);
  fill_columns(columns);
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  OK(arrowwood_builder_append_columns(builder, ROWS, columns, COLUMNS, &error));
  for (int column = 0; column < COLUMNS; column++)
    columns[column].size = columns[column].offset_count = columns[column].valid_count = 0;
  OK(arrowwood_builder_append_columns(builder, 0, columns, COLUMNS, &error));
  OK(arrowwood_builder_finish(builder, &built, &error));
  check_rows(built, 1);
  arrowwood_dataset_free(built);
}

static arrowwood_builder *builder;

/* Checks that columns are refused with a message, and that nothing is appended. */
static void check_refused(int32_t expected_code, const char *message, const arrowwood_column *columns, size_t count,
                          uint64_t rows) {
  uint64_t rows_after;
  FAILS(expected_code, message, arrowwood_builder_append_columns(builder, rows, columns, count, &error));
  OK(arrowwood_builder_rows(builder, &rows_after, &error));
  CHECK(rows_after == 0);
}

/* Checks that columns are refused after a change of one of them. */
#define REFUSES_CHANGED(expected_code, message, column, change)     \
  do {                                                              \
    arrowwood_column columns[COLUMNS];                              \
    fill_columns(columns);                                          \
    columns[column].change;                                         \
    check_refused(expected_code, message, columns, COLUMNS, ROWS);  \
  } while (0)

static void test_invalid_columns_are_refused(void) {
  static const int64_t backward[ROWS + 1] = {0, 8, 4, 11};
  static const int64_t outside[ROWS + 1] = {0, 4, 8, 12};
  static const int64_t negative[ROWS + 1] = {-1, 4, 8, 11};
  const int32_t invalid = ARROWWOOD_ERROR_INVALID_ARGUMENT;
  arrowwood_column columns[COLUMNS];
  struct ArrowSchema schema = parse_schema(SCHEMA);
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  fill_columns(columns);
  check_refused(invalid, "expected 11 columns", columns, COLUMNS - 1, ROWS);
  check_refused(invalid, "column 'ts': size: expected 8 bytes for each of 4 rows, got 24", columns, COLUMNS, ROWS + 1);
  check_refused(invalid, "column 'ts': size: expected 8 bytes", columns, COLUMNS, UINT64_MAX);
  REFUSES_CHANGED(invalid, "column 'ts': size: expected 8 bytes for each of 3 rows, got 23", 0, size = 23);
  REFUSES_CHANGED(invalid, "column 'ts': 'values' is NULL", 0, values = NULL);
  REFUSES_CHANGED(invalid, "column 'ts': valid_count: expected 3", 0, valid = middle_is_null; columns[0].valid_count = 2);
  REFUSES_CHANGED(invalid, "'ts' is declared without nulls", 0, valid = middle_is_null; columns[0].valid_count = ROWS);
  REFUSES_CHANGED(invalid, "column 'ts': offsets are those of text", 0, offsets = symbols; columns[0].offset_count = 4);
  REFUSES_CHANGED(invalid, "column 'symbol': offset_count", 1, offset_count = ROWS);
  REFUSES_CHANGED(invalid, "column 'symbol': offset_count", 1, offset_count = 0);
  REFUSES_CHANGED(invalid, "column 'symbol': row 1: offsets 8 and 4", 1, offsets = backward);
  REFUSES_CHANGED(invalid, "column 'symbol': row 2: offsets 8 and 12", 1, offsets = outside);
  REFUSES_CHANGED(invalid, "column 'symbol': row 0: offsets -1 and 4", 1, offsets = negative);
  REFUSES_CHANGED(invalid, "'offsets' is not aligned", 1, offsets = (const int64_t *)((const char *)symbols + 1));
  REFUSES_CHANGED(invalid, "column 'note': row 1: a text is not UTF-8", 4, values = "h\xff\xffll!");
  REFUSES_CHANGED(invalid, "column 'nothing': size: expected 0 bytes", 8, values = ts; columns[8].size = 3);
  arrowwood_builder_free(builder);

  schema = parse_schema("items: list<int64>");
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  check_refused(ARROWWOOD_ERROR_UNSUPPORTED, "column 'items': list<int64> has no plain values", columns, 1, ROWS);
  arrowwood_builder_free(builder);
}

static void test_writer_continues_after_late_rows(const char *folder) {
  char path[4096];
  arrowwood_writer *writer;
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  struct ArrowSchema schema = parse_schema("ts: int64");
  static const int64_t falling[2] = {3, 2};
  arrowwood_column column = fixed_column(ts, sizeof ts), late = fixed_column(falling, sizeof falling);
  snprintf(path, sizeof path, "%s/sorted", folder);
  options.sorted_by = "ts";
  OK(arrowwood_writer_open(path, &schema, &options, &writer, &error));
  schema.release(&schema);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "ts", arrowwood_writer_append_columns(writer, 2, &late, 1, &error));
  OK(arrowwood_writer_append_columns(writer, ROWS, &column, 1, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.rows == ROWS);
  OK(arrowwood_writer_close(writer, &error));
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  test_append_columns_to_table(arguments[1]);
  test_append_columns_to_builder();
  test_invalid_columns_are_refused();
  test_writer_continues_after_late_rows(arguments[1]);
  return 0;
}
