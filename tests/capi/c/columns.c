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

static arrowwood_column fixed(const void *values, size_t size) {
  arrowwood_column column = ARROWWOOD_COLUMN_INIT;
  column.values = values;
  column.size = size;
  return column;
}

static arrowwood_column texts(const char *bytes, const int64_t *offsets) {
  arrowwood_column column = fixed(bytes, (size_t)offsets[ROWS]);
  column.offsets = offsets;
  column.offset_count = ROWS + 1;
  return column;
}

static arrowwood_column with_null(arrowwood_column column) {
  column.valid = middle_is_null;
  column.valid_count = ROWS;
  return column;
}

static void fill(arrowwood_column *columns) {
  const arrowwood_column none = ARROWWOOD_COLUMN_INIT;
  columns[0] = fixed(ts, sizeof ts);
  columns[1] = texts("AAPLAAPLIBM", symbols);
  columns[2] = with_null(fixed(prices, sizeof prices));
  columns[3] = with_null(fixed(flags, sizeof flags));
  columns[4] = texts("h\xc3\xb6ll!", notes);
  columns[5] = with_null(texts("\xff\xfe\x00\x01!!", notes));
  columns[6] = fixed(cents, sizeof cents);
  columns[7] = fixed(days, sizeof days);
  columns[8] = none;
  columns[9] = fixed(tinies, sizeof tinies);
  columns[10] = texts("AAPLAAPLIBM", symbols);
}

static const char *const shown[ROWS][COLUMNS] = {
  {"", "AAPL", "1.5", "true", "", "0x", "1.23", "1969-12-31", "null", "-128", "AAPL"},
  {"", "AAPL", "null", "null", "h\xc3\xb6ll", "null", "0.00", "1970-01-01", "null", "0", "AAPL"},
  {"", "IBM", "2.5", "true", "!", "0x21", "184467440737095516.16", "2022-01-08", "null", "127", "IBM"},
};

static void holds(const arrowwood_dataset *dataset, uint64_t times) {
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
      if (strcmp(text, shown[row % ROWS][column]) != 0) {
        fprintf(stderr, "column %d: %s instead of %s\n", column, text, shown[row % ROWS][column]);
        exit(1);
      }
      arrowwood_string_free(text);
    }
  }
}

static struct ArrowSchema parsed(const char *text) {
  struct ArrowSchema schema;
  OK(arrowwood_schema_parse(text, &schema, &error));
  return schema;
}

static void tables_take_columns(const char *folder) {
  char path[4096];
  arrowwood_column columns[COLUMNS];
  arrowwood_writer *writer;
  arrowwood_dataset *table;
  struct ArrowSchema schema = parsed(SCHEMA);
  snprintf(path, sizeof path, "%s/table", folder);
  fill(columns);
  OK(arrowwood_writer_open(path, &schema, NULL, &writer, &error));
  schema.release(&schema);
  OK(arrowwood_writer_append_columns(writer, ROWS, columns, COLUMNS, &error));
  OK(arrowwood_writer_append_columns(writer, ROWS, columns, COLUMNS, &error));
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_open(path, NULL, &table, &error));
  holds(table, 2);
  arrowwood_dataset_free(table);
}

static void builders_take_columns(void) {
  arrowwood_column columns[COLUMNS];
  arrowwood_builder *builder;
  arrowwood_dataset *made;
  struct ArrowSchema schema = parsed(SCHEMA);
  fill(columns);
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  OK(arrowwood_builder_append_columns(builder, ROWS, columns, COLUMNS, &error));
  for (int column = 0; column < COLUMNS; column++)
    columns[column].size = columns[column].offset_count = columns[column].valid_count = 0;
  OK(arrowwood_builder_append_columns(builder, 0, columns, COLUMNS, &error));
  OK(arrowwood_builder_finish(builder, &made, &error));
  holds(made, 1);
  arrowwood_dataset_free(made);
}

static arrowwood_builder *builder;

/* Columns are refused with the message, and nothing is appended. */
static void refuses(int32_t wanted, const char *message, const arrowwood_column *columns, size_t count, uint64_t rows) {
  uint64_t found;
  FAILS(wanted, message, arrowwood_builder_append_columns(builder, rows, columns, count, &error));
  OK(arrowwood_builder_rows(builder, &found, &error));
  CHECK(found == 0);
}

#define CHANGED(wanted, message, column, change)                                                                      \
  do {                                                                                                              \
    arrowwood_column columns[COLUMNS];                                                                              \
    fill(columns);                                                                                                  \
    columns[column].change;                                                                                         \
    refuses(wanted, message, columns, COLUMNS, ROWS);                                                               \
  } while (0)

static void what_does_not_fit_is_refused(void) {
  static const int64_t backward[ROWS + 1] = {0, 8, 4, 11}, outside[ROWS + 1] = {0, 4, 8, 12}, least[ROWS + 1] = {-1, 4, 8, 11};
  const int32_t wrong = ARROWWOOD_ERROR_INVALID_ARGUMENT;
  arrowwood_column columns[COLUMNS];
  struct ArrowSchema schema = parsed(SCHEMA);
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  fill(columns);
  refuses(wrong, "expected 11 columns", columns, COLUMNS - 1, ROWS);
  refuses(wrong, "column 'ts': size: expected 8 bytes for each of 4 rows, got 24", columns, COLUMNS, ROWS + 1);
  refuses(wrong, "column 'ts': size: expected 8 bytes", columns, COLUMNS, UINT64_MAX);
  CHANGED(wrong, "column 'ts': size: expected 8 bytes for each of 3 rows, got 23", 0, size = 23);
  CHANGED(wrong, "column 'ts': 'values' is NULL", 0, values = NULL);
  CHANGED(wrong, "column 'ts': valid_count: expected 3", 0, valid = middle_is_null; columns[0].valid_count = 2);
  CHANGED(wrong, "'ts' is declared without nulls", 0, valid = middle_is_null; columns[0].valid_count = ROWS);
  CHANGED(wrong, "column 'ts': offsets are those of text", 0, offsets = symbols; columns[0].offset_count = 4);
  CHANGED(wrong, "column 'symbol': offset_count", 1, offset_count = ROWS);
  CHANGED(wrong, "column 'symbol': offset_count", 1, offset_count = 0);
  CHANGED(wrong, "column 'symbol': row 1: offsets 8 and 4", 1, offsets = backward);
  CHANGED(wrong, "column 'symbol': row 2: offsets 8 and 12", 1, offsets = outside);
  CHANGED(wrong, "column 'symbol': row 0: offsets -1 and 4", 1, offsets = least);
  CHANGED(wrong, "'offsets' is not aligned", 1, offsets = (const int64_t *)((const char *)symbols + 1));
  CHANGED(wrong, "column 'note': row 1: a text is not UTF-8", 4, values = "h\xff\xffll!");
  CHANGED(wrong, "column 'nothing': size: expected 0 bytes", 8, values = ts; columns[8].size = 3);
  arrowwood_builder_free(builder);

  schema = parsed("items: list<int64>");
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  refuses(ARROWWOOD_ERROR_UNSUPPORTED, "column 'items': list<int64> has no plain values", columns, 1, ROWS);
  arrowwood_builder_free(builder);
}

static void late_rows_are_refused_and_the_writer_goes_on(const char *folder) {
  char path[4096];
  arrowwood_writer *writer;
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  struct ArrowSchema schema = parsed("ts: int64");
  static const int64_t falling[2] = {3, 2};
  arrowwood_column column = fixed(ts, sizeof ts), late = fixed(falling, sizeof falling);
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

int main(int count, char **words) {
  CHECK(count == 2);
  tables_take_columns(words[1]);
  builders_take_columns();
  what_does_not_fit_is_refused();
  late_rows_are_refused_and_the_writer_goes_on(words[1]);
  return 0;
}
