/* Builds, opens, slices, queries, writes and exports datasets. `dataset FOLDER` */
#include "check.h"

#include <math.h>

static char path[4096];

/* Returns a path in the test's folder. */
static const char *path_in(const char *folder, const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* Builds five rows: text, price, time, flag, and a key that repeats. */
static arrowwood_dataset *build_sample(void) {
  static const char *const symbols[] = {"IBM", "AAPL", NULL, "IBM", "MSFT"};
  static const double prices[] = {125.5, 223.0, 1.25, 126.5, 28.75};
  struct ArrowSchema schema;
  arrowwood_builder *builder;
  arrowwood_dataset *dataset;
  uint64_t rows;
  int i;
  OK(arrowwood_schema_parse("symbol: utf8, price: float64, ts: timestamp[us, UTC] not null, up: bool, n: int32", &schema,
                            &error));
  CHECK(strcmp(schema.format, "+s") == 0 && schema.n_children == 5 && strcmp(schema.children[2]->format, "tsu:UTC") == 0);
  OK(arrowwood_builder_new(&schema, &builder, &error));
  for (i = 0; i < 5; i++) {
    arrowwood_value row[5];
    row[0] = arrowwood_text(symbols[i]);
    row[1] = arrowwood_float64(prices[i]);
    row[2] = arrowwood_timestamp(1000 * i, ARROWWOOD_UNIT_MILLISECOND);
    row[3] = i == 2 ? arrowwood_null() : arrowwood_bool(i % 2);
    row[4] = arrowwood_int64(i - 2);
    OK(arrowwood_builder_append_row(builder, row, 5, &error));
  }
  OK(arrowwood_builder_rows(builder, &rows, &error));
  CHECK(rows == 5);
  OK(arrowwood_builder_finish(builder, &dataset, &error));
  schema.release(&schema);
  return dataset;
}

static uint64_t count_rows(const arrowwood_dataset *dataset) {
  uint64_t rows;
  OK(arrowwood_dataset_num_rows(dataset, &rows, &error));
  return rows;
}

static arrowwood_value cell(const arrowwood_dataset *dataset, uint64_t row, uint64_t column) {
  arrowwood_value value;
  OK(arrowwood_dataset_value(dataset, row, &column, 1, &value, &error));
  return value;
}

static int is_text(arrowwood_value value, const char *text) {
  return value.kind == ARROWWOOD_KIND_TEXT && value.length == strlen(text) &&
         memcmp(value.as.text, text, value.length) == 0;
}

static void check_cells(const arrowwood_dataset *dataset) {
  arrowwood_value cells[5];
  char *text;
  double number;
  size_t columns, column;
  OK(arrowwood_dataset_num_columns(dataset, &columns, &error));
  CHECK(columns == 5);
  OK(arrowwood_dataset_cells(dataset, 0, cells, 5, &error));
  CHECK(is_text(cells[0], "IBM"));
  CHECK(cells[1].kind == ARROWWOOD_KIND_FLOAT64 && cells[1].as.float64 == 125.5);
  CHECK(cells[2].kind == ARROWWOOD_KIND_TIMESTAMP && cells[2].unit == ARROWWOOD_UNIT_MICROSECOND);
  CHECK(cells[2].length == 3 && memcmp(cells[2].as.timestamp.zone, "UTC", 3) == 0);
  CHECK(cells[3].kind == ARROWWOOD_KIND_BOOL && cells[3].as.int64 == 0);
  CHECK(cells[4].kind == ARROWWOOD_KIND_INT64 && cells[4].as.int64 == -2);
  OK(arrowwood_value_double(&cells[4], &number, &error));
  CHECK(number == -2);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "is no number", arrowwood_value_double(&cells[0], &number, &error));
  OK(arrowwood_dataset_cells(dataset, 3, cells, 5, &error));
  CHECK(cells[2].as.timestamp.count == 3000000);
  OK(arrowwood_value_text(&cells[2], &text, &error));
  CHECK(strncmp(text, "1970-01-01 00:00:03", 19) == 0);
  arrowwood_string_free(text);
  arrowwood_value time = arrowwood_timestamp(3, ARROWWOOD_UNIT_SECOND);
  OK(arrowwood_value_text(&time, &text, &error));
  CHECK(strcmp(text, "1970-01-01 00:00:03") == 0);
  arrowwood_string_free(text);
  time.as.timestamp.zone = "+02:00";
  time.length = 6;
  OK(arrowwood_value_text(&time, &text, &error));
  CHECK(strcmp(text, "1970-01-01 02:00:03+02:00") == 0);
  arrowwood_string_free(text);
  time.as.timestamp.zone = "Europe/Paris";
  time.length = 12;
  OK(arrowwood_value_text(&time, &text, &error));
  CHECK(strcmp(text, "1970-01-01 00:00:03Z") == 0);
  arrowwood_string_free(text);
  CHECK(cell(dataset, 2, 0).kind == ARROWWOOD_KIND_NULL);
  FAILS(ARROWWOOD_ERROR_ROW_OUT_OF_RANGE, "row 5 of a dataset of 5 rows",
        arrowwood_dataset_cells(dataset, 5, cells, 5, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "room for 4 cells, and a row has 5",
        arrowwood_dataset_cells(dataset, 0, cells, 4, &error));
  OK(arrowwood_dataset_column_index(dataset, "ts", &column, &error));
  CHECK(column == 2);
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "'symbol', 'price'",
        arrowwood_dataset_column_index(dataset, "cost", &column, &error));
}

static void check_columns(const arrowwood_dataset *dataset) {
  static const char *const names[] = {"symbol", "price", "ts", "up", "n"};
  static const char *const types[] = {"utf8", "float64", "timestamp[us, UTC]", "bool", "int32"};
  char *text;
  size_t column;
  for (column = 0; column < 5; column++) {
    OK(arrowwood_dataset_column_name(dataset, column, &text, &error));
    CHECK(strcmp(text, names[column]) == 0);
    arrowwood_string_free(text);
    OK(arrowwood_dataset_column_type(dataset, column, &text, &error));
    CHECK(strcmp(text, types[column]) == 0);
    arrowwood_string_free(text);
  }
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "no column number 5; there are 5",
        arrowwood_dataset_column_name(dataset, 5, &text, &error));
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "no column number 5; there are 5",
        arrowwood_dataset_column_type(dataset, 5, &text, &error));
}

static void check_parts(arrowwood_dataset *dataset) {
  arrowwood_dataset *slice, *selected, *both[2], *all, *same, *newer;
  const char *names[] = {"n", "symbol"};
  size_t numbers[] = {4, 0}, columns;
  uint64_t first, bytes, mapped, copied, resident;
  int64_t sorted;
  OK(arrowwood_dataset_slice(dataset, 1, 3, &slice, &error));
  CHECK(count_rows(slice) == 3 && cell(slice, 0, 1).as.float64 == 223.0);
  OK(arrowwood_dataset_select_names(slice, names, 2, &selected, &error));
  arrowwood_dataset_free(slice);
  CHECK(count_rows(selected) == 3 && is_text(cell(selected, 0, 1), "AAPL")); /* the selection outlives the slice */
  both[0] = selected;
  OK(arrowwood_dataset_select(dataset, numbers, 2, &both[1], &error));
  OK(arrowwood_dataset_concat((const arrowwood_dataset *const *)both, 2, &all, &error));
  CHECK(count_rows(all) == 8 && cell(all, 3, 0).as.int64 == -2);
  OK(arrowwood_dataset_num_batches(all, &columns, &error));
  CHECK(columns == 2);
  OK(arrowwood_dataset_clone(all, &same, &error));
  arrowwood_dataset_free(all);
  arrowwood_dataset_free(both[1]);
  CHECK(count_rows(same) == 8);
  OK(arrowwood_dataset_refresh(same, &newer, &error));
  CHECK(count_rows(newer) == 8);
  arrowwood_dataset_free(newer);
  FAILS(ARROWWOOD_ERROR_SCHEMA_MISMATCH, "differ",
        (both[1] = dataset, arrowwood_dataset_concat((const arrowwood_dataset *const *)both, 2, &all, &error)));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "nothing to concatenate", arrowwood_dataset_concat(NULL, 0, &all, &error));
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "number 5",
        (numbers[1] = 5, arrowwood_dataset_select(dataset, numbers, 2, &all, &error)));
  OK(arrowwood_dataset_first_row(dataset, &first, &error));
  OK(arrowwood_dataset_sorted_by(dataset, &sorted, &error));
  OK(arrowwood_dataset_bytes(dataset, &bytes, &error));
  OK(arrowwood_dataset_footprint(dataset, &mapped, &copied, &resident, &error));
  OK(arrowwood_dataset_footprint(dataset, NULL, NULL, NULL, &error));
  CHECK(first == 0 && sorted == -1 && bytes > 80 && mapped == 0 && resident == 0);
  arrowwood_dataset_free(same);
  arrowwood_dataset_free(selected);
}

static void check_values_inside(const char *folder) {
  /* The messages of a file have a column of lists of structs. */
  arrowwood_dataset *messages, *dataset = build_sample();
  arrowwood_value value;
  uint64_t path_to[5] = {13, 0, 0, 0, 0};
  char *text;
  FAILS(ARROWWOOD_ERROR_UNSUPPORTED, "memory", arrowwood_dataset_messages(dataset, &messages, &error));
  OK(arrowwood_write(dataset, path_in(folder, "made.arrow"), NULL, &error));
  arrowwood_dataset_free(dataset);
  OK(arrowwood_open(path_in(folder, "made.arrow"), NULL, &dataset, &error));
  OK(arrowwood_dataset_messages(dataset, &messages, &error));
  CHECK(count_rows(messages) == 2); /* the schema and a batch */
  CHECK(is_text(cell(messages, 0, 0), "Schema") && is_text(cell(messages, 1, 0), "RecordBatch"));
  value = cell(messages, 1, 13); /* the buffers of the batch */
  CHECK(value.kind == ARROWWOOD_KIND_LIST && value.length == 11);
  OK(arrowwood_dataset_value(messages, 1, path_to, 2, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_STRUCT && value.length == 4);
  path_to[1] = 1;
  OK(arrowwood_dataset_value(messages, 1, path_to, 3, &value, &error));
  CHECK(is_text(value, "symbol"));
  path_to[2] = 1;
  OK(arrowwood_dataset_value(messages, 1, path_to, 3, &value, &error));
  CHECK(is_text(value, "offsets"));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "nothing inside",
        arrowwood_dataset_value(messages, 1, path_to, 4, &value, &error));
  FAILS(ARROWWOOD_ERROR_ROW_OUT_OF_RANGE, "item 11 of a list of 11",
        (path_to[1] = 11, arrowwood_dataset_value(messages, 1, path_to, 2, &value, &error)));
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "member 4 of a struct of 4",
        (path_to[1] = 0, path_to[2] = 4, arrowwood_dataset_value(messages, 1, path_to, 3, &value, &error)));
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "no column number 15",
        (path_to[0] = 15, arrowwood_dataset_value(messages, 1, path_to, 1, &value, &error)));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "path is empty",
        arrowwood_dataset_value(messages, 1, NULL, 0, &value, &error));
  OK(arrowwood_dataset_display(dataset, 2, 60, &text, &error));
  CHECK(strstr(text, "5 rows") != NULL && strstr(text, "IBM") != NULL && strstr(text, "mapped") != NULL);
  arrowwood_string_free(text);
  value.kind = ARROWWOOD_KIND_LIST;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "nested", arrowwood_value_text(&value, &text, &error));
  arrowwood_dataset_free(messages);
  arrowwood_dataset_free(dataset);
}

static void check_reductions(const arrowwood_dataset *dataset) {
  arrowwood_value value;
  OK(arrowwood_dataset_reduce(dataset, 1, ARROWWOOD_SUM, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_FLOAT64 && value.as.float64 == 505.0);
  OK(arrowwood_dataset_reduce(dataset, 4, ARROWWOOD_SUM, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_INT128 && value.as.int64 == 0);
  OK(arrowwood_dataset_reduce(dataset, 4, ARROWWOOD_MIN, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_INT64 && value.as.int64 == -2);
  OK(arrowwood_dataset_reduce(dataset, 0, ARROWWOOD_MAX, &value, &error));
  CHECK(is_text(value, "MSFT"));
  OK(arrowwood_dataset_reduce(dataset, 1, ARROWWOOD_MEAN, &value, &error));
  CHECK(value.as.float64 == 101.0);
  OK(arrowwood_dataset_reduce(dataset, 4, ARROWWOOD_VAR, &value, &error));
  CHECK(value.as.float64 == 2.5);
  OK(arrowwood_dataset_reduce(dataset, 4, ARROWWOOD_STD, &value, &error));
  CHECK(fabs(value.as.float64 - 1.5811388300841898) < 1e-15);
  OK(arrowwood_dataset_reduce(dataset, 0, ARROWWOOD_COUNT, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_UINT64 && value.as.uint64 == 4);
  OK(arrowwood_dataset_reduce(dataset, 3, ARROWWOOD_NULL_COUNT, &value, &error));
  CHECK(value.as.uint64 == 1);
  OK(arrowwood_dataset_reduce(dataset, 0, ARROWWOOD_N_UNIQUE, &value, &error));
  CHECK(value.as.uint64 == 4);
  OK(arrowwood_dataset_reduce(dataset, 4, ARROWWOOD_MEDIAN, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_FLOAT64 && value.as.float64 == 0);
  OK(arrowwood_dataset_reduce(dataset, 3, ARROWWOOD_ANY, &value, &error));
  CHECK(value.kind == ARROWWOOD_KIND_BOOL && value.as.int64 == 1);
  OK(arrowwood_dataset_reduce(dataset, 3, ARROWWOOD_ALL, &value, &error));
  CHECK(value.as.int64 == 0);
  OK(arrowwood_dataset_quantile(dataset, 1, 0.5, &value, &error));
  CHECK(value.as.float64 == 125.5);
  OK(arrowwood_dataset_approx_quantile(dataset, 1, 0.5, &value, &error));
  CHECK(value.as.float64 == 125.5);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "", arrowwood_dataset_quantile(dataset, 1, 1.5, &value, &error));
  FAILS(ARROWWOOD_ERROR_UNSUPPORTED, "'symbol'", arrowwood_dataset_reduce(dataset, 0, ARROWWOOD_SUM, &value, &error));
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "5", arrowwood_dataset_reduce(dataset, 5, ARROWWOOD_SUM, &value, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "no function 13", arrowwood_dataset_reduce(dataset, 1, 13, &value, &error));
}

static arrowwood_predicate *compare(const char *column, int32_t operator_code, arrowwood_value value) {
  arrowwood_predicate *predicate;
  OK(arrowwood_predicate_compare(column, operator_code, &value, &predicate, &error));
  return predicate;
}

static uint64_t count_matches(const arrowwood_dataset *dataset, arrowwood_predicate *predicate) {
  arrowwood_dataset *rows;
  uint64_t count;
  OK(arrowwood_dataset_filter(dataset, predicate, &rows, &error));
  count = count_rows(rows);
  arrowwood_dataset_free(rows);
  arrowwood_predicate_free(predicate);
  return count;
}

static void check_predicates(const arrowwood_dataset *dataset) {
  arrowwood_predicate *a, *b, *both, *either, *not_both;
  arrowwood_value values[3];
  arrowwood_dataset *rows;
  char *text;
  CHECK(count_matches(dataset, compare("price", ARROWWOOD_EQ, arrowwood_float64(223))) == 1);
  CHECK(count_matches(dataset, compare("price", ARROWWOOD_NE, arrowwood_int64(223))) == 4);
  CHECK(count_matches(dataset, compare("price", ARROWWOOD_LT, arrowwood_float64(28.75))) == 1);
  CHECK(count_matches(dataset, compare("price", ARROWWOOD_LE, arrowwood_float64(28.75))) == 2);
  CHECK(count_matches(dataset, compare("n", ARROWWOOD_GT, arrowwood_uint64(0))) == 2);
  CHECK(count_matches(dataset, compare("n", ARROWWOOD_GE, arrowwood_float64(-0.5))) == 3);
  CHECK(count_matches(dataset, compare("up", ARROWWOOD_EQ, arrowwood_bool(7))) == 2);
  CHECK(count_matches(dataset, compare("ts", ARROWWOOD_GE, arrowwood_timestamp(3, ARROWWOOD_UNIT_SECOND))) == 2);
  a = compare("symbol", ARROWWOOD_EQ, arrowwood_text("IBM"));
  b = compare("price", ARROWWOOD_GT, arrowwood_int64(126));
  OK(arrowwood_predicate_and(a, b, &both, &error));
  OK(arrowwood_predicate_or(a, b, &either, &error));
  OK(arrowwood_predicate_not(either, &not_both, &error));
  arrowwood_predicate_free(a);
  arrowwood_predicate_free(b);
  OK(arrowwood_predicate_text(both, &text, &error));
  CHECK(strcmp(text, "(symbol == \"IBM\") & (price > 126)") == 0);
  arrowwood_string_free(text);
  CHECK(count_matches(dataset, both) == 1 && count_matches(dataset, either) == 3);
  CHECK(count_matches(dataset, not_both) == 1); /* a null is neither */
  values[0] = arrowwood_text_of("IBMER", 3);
  values[1] = arrowwood_text("MSFT");
  values[2] = arrowwood_null();
  OK(arrowwood_predicate_in("symbol", values, 3, &a, &error));
  CHECK(count_matches(dataset, a) == 3);
  OK(arrowwood_predicate_in("symbol", NULL, 0, &a, &error));
  CHECK(count_matches(dataset, a) == 0);
  OK(arrowwood_predicate_null("symbol", &a, &error));
  CHECK(count_matches(dataset, a) == 1);
  a = compare("cost", ARROWWOOD_EQ, arrowwood_int64(1));
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "'cost'", arrowwood_dataset_filter(dataset, a, &rows, &error));
  arrowwood_predicate_free(a);
  a = compare("price", ARROWWOOD_EQ, arrowwood_text("high"));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "price", arrowwood_dataset_filter(dataset, a, &rows, &error));
  arrowwood_predicate_free(a);
}

/* Nests predicates to the maximum depth, and checks that deeper ones are refused. */
static void check_deep_predicates(const arrowwood_dataset *dataset) {
  arrowwood_predicate *predicate = compare("n", ARROWWOOD_GT, arrowwood_int64(0)), *outer;
  int i;
  for (i = 1; i < 500; i++) {
    OK(arrowwood_predicate_not(predicate, &outer, &error));
    arrowwood_predicate_free(predicate);
    predicate = outer;
  }
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "more than 500 deep", arrowwood_predicate_not(predicate, &outer, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "more than 500 deep",
        arrowwood_predicate_and(predicate, predicate, &outer, &error));
  CHECK(count_matches(dataset, predicate) == 3);
}

static void check_groups(const arrowwood_dataset *dataset) {
  const char *by[] = {"symbol"};
  arrowwood_aggregate columns[3] = {{"mean", "price", ARROWWOOD_MEAN, 0}, {"n", NULL, ARROWWOOD_COUNT, 0},
                                    {"top", "price", ARROWWOOD_MAX, 0}};
  arrowwood_predicate *high = compare("price", ARROWWOOD_GT, arrowwood_int64(2));
  arrowwood_dataset *groups;
  OK(arrowwood_dataset_aggregate(dataset, by, 1, high, columns, 3, &groups, &error));
  CHECK(count_rows(groups) == 3 && is_text(cell(groups, 0, 0), "IBM"));
  CHECK(cell(groups, 0, 1).as.float64 == 126.0 && cell(groups, 0, 2).as.int64 == 2);
  CHECK(cell(groups, 0, 3).as.float64 == 126.5);
  arrowwood_dataset_free(groups);
  OK(arrowwood_dataset_aggregate(dataset, NULL, 0, NULL, columns, 2, &groups, &error));
  CHECK(count_rows(groups) == 1 && cell(groups, 0, 0).as.float64 == 101.0);
  arrowwood_dataset_free(groups);
  columns[1].function = ARROWWOOD_SUM;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'n' of the result is of no column",
        arrowwood_dataset_aggregate(dataset, by, 1, high, columns, 2, &groups, &error));
  columns[1].name = "mean";
  columns[1].column = "price";
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "two columns called 'mean'",
        arrowwood_dataset_aggregate(dataset, by, 1, high, columns, 2, &groups, &error));
  columns[0].name = "middle";
  columns[0].function = ARROWWOOD_MEDIAN;
  columns[1].name = "unique";
  columns[1].function = ARROWWOOD_N_UNIQUE;
  OK(arrowwood_dataset_aggregate(dataset, by, 1, high, columns, 2, &groups, &error));
  CHECK(cell(groups, 0, 1).as.float64 == 126.0 && cell(groups, 0, 2).as.int64 == 2);
  arrowwood_dataset_free(groups);
  columns[1].function = ARROWWOOD_NULL_COUNT;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "no function 8 of groups",
        arrowwood_dataset_aggregate(dataset, by, 1, high, columns, 2, &groups, &error));
  arrowwood_predicate_free(high);
  OK(arrowwood_dataset_value_counts(dataset, 0, &groups, &error));
  CHECK(count_rows(groups) == 4 && is_text(cell(groups, 0, 0), "IBM") && cell(groups, 0, 1).as.int64 == 2);
  arrowwood_dataset_free(groups);
  OK(arrowwood_dataset_describe(dataset, &groups, &error));
  CHECK(count_rows(groups) == 9 && is_text(cell(groups, 2, 0), "mean") && cell(groups, 2, 2).as.float64 == 101.0);
  arrowwood_dataset_free(groups);
}

static void check_row_selection(const arrowwood_dataset *dataset) {
  const int64_t rows[] = {4, -5, 4};
  const int64_t wrong[] = {0, 5};
  arrowwood_dataset *picked, *again, *one;
  size_t batches;
  OK(arrowwood_dataset_take(dataset, rows, 3, &picked, &error));
  CHECK(count_rows(picked) == 3 && is_text(cell(picked, 0, 0), "MSFT") && is_text(cell(picked, 1, 0), "IBM"));
  FAILS(ARROWWOOD_ERROR_ROW_OUT_OF_RANGE, "5", arrowwood_dataset_take(dataset, wrong, 2, &again, &error));
  arrowwood_dataset_free(picked);
  OK(arrowwood_dataset_sample(dataset, 2, 1, &picked, &error));
  OK(arrowwood_dataset_sample(dataset, 2, 1, &again, &error));
  CHECK(count_rows(picked) == 2 && cell(picked, 0, 4).as.int64 == cell(again, 0, 4).as.int64);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "", arrowwood_dataset_sample(dataset, 6, 1, &one, &error));
  arrowwood_dataset_free(picked);
  OK(arrowwood_dataset_shuffle(dataset, 1, &picked, &error));
  CHECK(count_rows(picked) == 5);
  arrowwood_dataset_free(again);
  OK(arrowwood_dataset_concat((const arrowwood_dataset *const *)&picked, 1, &again, &error));
  arrowwood_dataset_free(picked);
  OK(arrowwood_dataset_collect(again, &one, &error));
  OK(arrowwood_dataset_num_batches(one, &batches, &error));
  CHECK(batches == 1 && count_rows(one) == 5);
  arrowwood_dataset_free(again);
  arrowwood_dataset_free(one);
}

/* ---- files ---- */

static int released;
static void release(void *context) {
  free(context);
  released++;
}

static void check_memory(const char *folder) {
  arrowwood_open_options options = ARROWWOOD_OPEN_OPTIONS_INIT;
  struct ArrowArray array;
  arrowwood_dataset *dataset, *slice;
  FILE *file = fopen(path_in(folder, "made.arrow"), "rb");
  char *bytes, *copy;
  long length;
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  length = ftell(file);
  rewind(file);
  bytes = (char *)malloc((size_t)length);
  CHECK(fread(bytes, 1, (size_t)length, file) == (size_t)length);
  fclose(file);
  copy = (char *)malloc((size_t)length);
  memcpy(copy, bytes, (size_t)length);
  /* Bytes that are refused remain the caller's. */
  FAILS(ARROWWOOD_ERROR_INVALID_DATA, "",
        arrowwood_open_memory(bytes + 1, (size_t)length - 1, release, bytes, NULL, &dataset, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_DATA, "", arrowwood_open_memory(NULL, 0, release, bytes, NULL, &dataset, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'bytes' is NULL",
        arrowwood_open_memory(NULL, 5, release, bytes, NULL, &dataset, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'dataset' is NULL",
        arrowwood_open_memory(bytes, (size_t)length, release, bytes, NULL, NULL, &error));
  CHECK(released == 0);
  /* Bytes that are used in place are released with the last handle that uses them. */
  OK(arrowwood_open_memory(bytes, (size_t)length, release, bytes, NULL, &dataset, &error));
  OK(arrowwood_dataset_slice(dataset, 1, 2, &slice, &error));
  CHECK(cell(dataset, 0, 0).as.text > bytes && cell(dataset, 0, 0).as.text < bytes + length);
  arrowwood_dataset_free(dataset);
  OK(arrowwood_dataset_batch(slice, 0, 0, &array, &error));
  arrowwood_dataset_free(slice);
  CHECK(released == 0 && array.length == 2);
  array.release(&array);
  CHECK(released == 1);
  /* Bytes that are copied are released before the call returns. */
  options.copy = 1;
  OK(arrowwood_open_memory(copy, (size_t)length, release, copy, &options, &dataset, &error));
  CHECK(released == 2 && is_text(cell(dataset, 0, 0), "IBM"));
  arrowwood_dataset_free(dataset);
}

static void check_files(const char *folder) {
  arrowwood_open_options options = ARROWWOOD_OPEN_OPTIONS_INIT;
  arrowwood_write_options write = ARROWWOOD_WRITE_OPTIONS_INIT;
  arrowwood_csv_options csv = ARROWWOOD_CSV_OPTIONS_INIT;
  arrowwood_dataset *dataset, *again;
  struct ArrowSchema schema;
  const char *paths[2], *dictionary[] = {"symbol"};
  char first[4096], second[4096];
  arrowwood_builder *builder;
  arrowwood_value value, one = arrowwood_int64(1);
  uint64_t mapped;
  FILE *file;
  int i;
  OK(arrowwood_open(path_in(folder, "made.arrow"), &options, &dataset, &error));
  write.format = ARROWWOOD_FORMAT_STREAM;
  write.compression = ARROWWOOD_COMPRESSION_ZSTD;
  write.max_rows = 2;
  OK(arrowwood_write(dataset, path_in(folder, "packed.stream"), &write, &error));
  arrowwood_dataset_free(dataset);
  options.validate = ARROWWOOD_VALIDATE_FULL;
  OK(arrowwood_open(path_in(folder, "packed.stream"), &options, &dataset, &error));
  OK(arrowwood_dataset_footprint(dataset, &mapped, NULL, NULL, &error));
  CHECK(count_rows(dataset) == 5 && mapped > 0);
  arrowwood_dataset_free(dataset);
  OK(arrowwood_schema_parse("n: int64", &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  for (i = 0; i < 1000; i++) OK(arrowwood_builder_append_row(builder, &one, 1, &error));
  OK(arrowwood_builder_finish(builder, &dataset, &error));
  write.compression = ARROWWOOD_COMPRESSION_LZ4;
  write.max_rows = 0;
  OK(arrowwood_write(dataset, path_in(folder, "ones.stream"), &write, &error));
  arrowwood_dataset_free(dataset);
  options.strict = 1;
  options.validate = ARROWWOOD_VALIDATE_LAZY;
  OK(arrowwood_open(path_in(folder, "ones.stream"), &options, &dataset, &error));
  FAILS(ARROWWOOD_ERROR_COPY_NEEDED, "ones.stream", arrowwood_dataset_reduce(dataset, 0, ARROWWOOD_SUM, &value, &error));
  arrowwood_dataset_free(dataset);
  strcpy(first, path_in(folder, "made.arrow"));
  strcpy(second, path_in(folder, "packed.stream"));
  paths[0] = first;
  paths[1] = second;
  OK(arrowwood_open_paths(paths, 2, NULL, &dataset, &error));
  CHECK(count_rows(dataset) == 10);
  OK(arrowwood_dataset_validate(dataset, NULL, NULL, &error));
  arrowwood_dataset_free(dataset);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "", arrowwood_open_paths(NULL, 0, NULL, &dataset, &error));
  OK(arrowwood_open(path_in(folder, "*.arrow"), NULL, &dataset, &error));
  CHECK(count_rows(dataset) == 5);
  arrowwood_dataset_free(dataset);
  FAILS(ARROWWOOD_ERROR_NOT_FOUND, "none.arrow", arrowwood_open(path_in(folder, "none.arrow"), NULL, &dataset, &error));

  file = fopen(path_in(folder, "rows.csv"), "w");
  fputs("symbol;n\nIBM;1\nAAPL;2\nIBM;3\n", file);
  fclose(file);
  csv.delimiter = ';';
  csv.dictionary = dictionary;
  csv.dictionary_count = 1;
  OK(arrowwood_read_csv(path_in(folder, "rows.csv"), &csv, &dataset, &error));
  CHECK(count_rows(dataset) == 3 && is_text(cell(dataset, 2, 0), "IBM"));
  arrowwood_dataset_free(dataset);
  OK(arrowwood_schema_parse("n: int8", &schema, &error));
  csv.schema = &schema;
  csv.dictionary_count = 0;
  OK(arrowwood_read_csv(path_in(folder, "rows.csv"), &csv, &again, &error));
  CHECK(count_rows(again) == 3 && cell(again, 1, 0).as.int64 == 2);
  arrowwood_dataset_free(again);
  schema.release(&schema);
  FAILS(ARROWWOOD_ERROR_NOT_FOUND, "none.csv", arrowwood_read_csv(path_in(folder, "none.csv"), NULL, &again, &error));
}

/* ---- Arrow data ---- */

static int failing_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema) {
  (void)stream;
  (void)schema;
  return 5;
}
static const char *failing_text(struct ArrowArrayStream *stream) {
  (void)stream;
  return "the well is dry";
}
static void failing_release(struct ArrowArrayStream *stream) {
  released++;
  stream->release = NULL;
}

static void check_exchange(const arrowwood_dataset *dataset) {
  struct ArrowArrayStream stream, failing;
  struct ArrowSchema schema, field;
  struct ArrowArray array;
  arrowwood_dataset *imported;
  int before = released;
  OK(arrowwood_dataset_stream(dataset, 0, &stream, &error));
  OK(arrowwood_import_stream(&stream, &imported, &error));
  CHECK(stream.release == NULL && count_rows(imported) == 5 && is_text(cell(imported, 0, 0), "IBM"));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'stream' was released", arrowwood_import_stream(&stream, &imported, &error));
  arrowwood_dataset_free(imported);
  OK(arrowwood_dataset_schema(dataset, &schema, &error));
  OK(arrowwood_dataset_batch(dataset, 0, ARROWWOOD_ALIGNED, &array, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'dataset' is NULL", arrowwood_import_array(&array, &schema, NULL, &error));
  CHECK(array.release != NULL); /* the argument was wrong, so the array is still the caller's */
  OK(arrowwood_import_array(&array, &schema, &imported, &error));
  CHECK(array.release == NULL && count_rows(imported) == 5);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'array' was released",
        arrowwood_import_array(&array, &schema, &imported, &error));
  arrowwood_dataset_free(imported);
  FAILS(ARROWWOOD_ERROR_ROW_OUT_OF_RANGE, "batch 1 of a dataset of 1 batches",
        arrowwood_dataset_batch(dataset, 1, 0, &array, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "0x8", arrowwood_dataset_stream(dataset, 8, &stream, &error));
  schema.release(&schema);
  OK(arrowwood_dataset_column_stream(dataset, 4, 0, &stream, &error));
  CHECK(stream.get_schema(&stream, &field) == 0 && strcmp(field.format, "i") == 0 && strcmp(field.name, "n") == 0);
  CHECK(stream.get_next(&stream, &array) == 0 && array.length == 5 && ((const int32_t *)array.buffers[1])[4] == 2);
  OK(arrowwood_import_array(&array, &field, &imported, &error)); /* no struct: one column called values */
  CHECK(cell(imported, 4, 0).as.int64 == 2);
  arrowwood_dataset_free(imported);
  field.release(&field);
  stream.release(&stream);
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "number 9", arrowwood_dataset_column_stream(dataset, 9, 0, &stream, &error));
  memset(&failing, 0, sizeof failing);
  failing.get_schema = failing_get_schema;
  failing.get_last_error = failing_text;
  failing.release = failing_release;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "importing an Arrow C stream",
        arrowwood_import_stream(&failing, &imported, &error));
  CHECK(failing.release == NULL && released == before + 1);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "colour", arrowwood_schema_parse("c: colour", &schema, &error));
}

static void check_chunks(const arrowwood_dataset *dataset) {
  const arrowwood_chunk *chunks;
  arrowwood_chunks *owner;
  arrowwood_dataset *slice, *both[2], *all;
  size_t count;
  OK(arrowwood_dataset_slice(dataset, 3, 2, &slice, &error));
  both[0] = (arrowwood_dataset *)dataset;
  both[1] = slice;
  OK(arrowwood_dataset_concat((const arrowwood_dataset *const *)both, 2, &all, &error));
  arrowwood_dataset_free(slice);
  OK(arrowwood_dataset_chunks(all, 1, 0, &chunks, &count, &owner, &error));
  CHECK(count == 2 && chunks[0].rows == 5 && chunks[1].rows == 2 && chunks[1].first_row == 5);
  CHECK(((const double *)chunks[1].values.data)[1] == 28.75 && chunks[1].null_count == 0);
  CHECK(chunks[1].values.size >= 16 && chunks[0].children == NULL && chunks[0].dictionary == NULL);
  arrowwood_chunks_free(owner);
  OK(arrowwood_dataset_chunks(all, 0, ARROWWOOD_STRUCTURE_ONLY, &chunks, &count, &owner, &error));
  CHECK(chunks[0].null_count == 1 && chunks[1].null_count == 0);
  {
    const int32_t *offsets = (const int32_t *)chunks[1].offsets.data;
    CHECK(memcmp((const char *)chunks[1].data.data + offsets[1], "MSFT", 4) == 0 && offsets[2] - offsets[1] == 4);
  }
  arrowwood_dataset_free(all);
  arrowwood_chunks_free(owner);
  OK(arrowwood_dataset_slice(dataset, 5, 5, &slice, &error));
  OK(arrowwood_dataset_chunks(slice, 0, 0, &chunks, &count, &owner, &error));
  CHECK(count == 0 && chunks == NULL);
  arrowwood_dataset_free(slice);
  arrowwood_chunks_free(owner);
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "5", arrowwood_dataset_chunks(dataset, 5, 0, &chunks, &count, &owner, &error));
}

/* Appends a value of every kind, and compares what is read. */
static void check_every_kind(void) {
  static const char *const types =
      "a: bool, b: int8, c: uint64, d: float32, e: float64, f: decimal128(20, 2), g: utf8, h: binary, "
      "i: fixed_size_binary[16], j: date32, k: time64[us], l: timestamp[ns], m: duration[ms], n: interval[month_day_nano], "
      "o: decimal256(60, 1), p: float16";
  struct ArrowSchema schema;
  arrowwood_builder *builder;
  arrowwood_dataset *dataset;
  arrowwood_value row[16], back[16];
  uint8_t uuid[16] = {1, 2, 3};
  int i;
  OK(arrowwood_schema_parse(types, &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  row[0] = arrowwood_bool(1);
  row[1] = arrowwood_int64(-128);
  row[2] = arrowwood_uint64(UINT64_MAX);
  row[3] = arrowwood_float64(0.5);
  row[3].kind = ARROWWOOD_KIND_FLOAT32;
  row[4] = arrowwood_float64(-1e300);
  row[5] = arrowwood_null();
  row[5].kind = ARROWWOOD_KIND_DECIMAL;
  row[5].unit = 2;
  memset(row[5].as.words, 0xff, 32);
  row[5].as.words[0] = (uint64_t)-12345;
  row[6] = arrowwood_text("\xc5\xbc\xc3\xb3\xc5\x82w");
  row[7] = arrowwood_bytes("a\0b", 3);
  row[8] = arrowwood_bytes(uuid, 16);
  row[8].kind = ARROWWOOD_KIND_UUID;
  row[9] = arrowwood_date(-1);
  row[10] = arrowwood_int64(86399999999);
  row[10].kind = ARROWWOOD_KIND_TIME;
  row[10].unit = ARROWWOOD_UNIT_MICROSECOND;
  row[11] = arrowwood_timestamp(1, ARROWWOOD_UNIT_SECOND);
  row[12] = arrowwood_int64(-5);
  row[12].kind = ARROWWOOD_KIND_DURATION;
  row[12].unit = ARROWWOOD_UNIT_SECOND;
  row[13] = arrowwood_null();
  row[13].kind = ARROWWOOD_KIND_INTERVAL;
  row[13].unit = 2;
  row[13].as.interval.months = -1;
  row[13].as.interval.days = 31;
  row[13].as.interval.nanoseconds = -7;
  row[14] = arrowwood_null();
  row[14].kind = ARROWWOOD_KIND_INT128;
  row[14].as.words[0] = 5;
  row[14].as.words[1] = 1;
  row[15] = arrowwood_float64(0.25);
  OK(arrowwood_builder_append_row(builder, row, 16, &error));
  for (i = 0; i < 16; i++) back[i] = arrowwood_null();
  OK(arrowwood_builder_append_row(builder, back, 16, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "15 values for 16 columns",
        arrowwood_builder_append_row(builder, row, 15, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'b'",
        (row[1].as.int64 = 128, arrowwood_builder_append_row(builder, row, 16, &error)));
  row[1].as.int64 = -128;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "nested",
        (row[1].kind = ARROWWOOD_KIND_STRUCT, arrowwood_builder_append_row(builder, row, 16, &error)));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "no kind 20",
        (row[1].kind = 20, arrowwood_builder_append_row(builder, row, 16, &error)));
  row[1].kind = ARROWWOOD_KIND_INT64;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "no unit of time",
        (row[12].unit = 4, arrowwood_builder_append_row(builder, row, 16, &error)));
  row[12].unit = 0;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "no scale",
        (row[5].unit = 300, arrowwood_builder_append_row(builder, row, 16, &error)));
  row[5].unit = 2;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "not UTF-8",
        (row[6] = arrowwood_text("\xff"), arrowwood_builder_append_row(builder, row, 16, &error)));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "value.as.bytes",
        (row[6] = arrowwood_text_of(NULL, 5), arrowwood_builder_append_row(builder, row, 16, &error)));
  OK(arrowwood_builder_finish(builder, &dataset, &error));
  CHECK(count_rows(dataset) == 2);
  OK(arrowwood_dataset_cells(dataset, 0, back, 16, &error));
  CHECK(back[0].kind == ARROWWOOD_KIND_BOOL && back[0].as.int64 == 1 && back[1].as.int64 == -128);
  CHECK(back[2].kind == ARROWWOOD_KIND_UINT64 && back[2].as.uint64 == UINT64_MAX);
  CHECK(back[3].kind == ARROWWOOD_KIND_FLOAT32 && back[3].as.float64 == 0.5 && back[4].as.float64 == -1e300);
  CHECK(back[5].kind == ARROWWOOD_KIND_DECIMAL && back[5].unit == 2 && memcmp(&back[5].as, &row[5].as, 32) == 0);
  CHECK(is_text(back[6], "\xc5\xbc\xc3\xb3\xc5\x82w"));
  CHECK(back[7].kind == ARROWWOOD_KIND_BYTES && back[7].length == 3 && memcmp(back[7].as.bytes, "a\0b", 3) == 0);
  CHECK(back[8].length == 16 && memcmp(back[8].as.bytes, uuid, 16) == 0);
  CHECK(back[9].kind == ARROWWOOD_KIND_DATE && back[9].as.int64 == -1);
  CHECK(back[10].kind == ARROWWOOD_KIND_TIME && back[10].as.int64 == 86399999999 && back[10].unit == 2);
  CHECK(back[11].as.timestamp.count == 1000000000 && back[11].unit == 3 && back[11].as.timestamp.zone == NULL);
  CHECK(back[12].kind == ARROWWOOD_KIND_DURATION && back[12].as.int64 == -5000 && back[12].unit == 1);
  CHECK(back[13].as.interval.months == -1 && back[13].as.interval.days == 31 && back[13].as.interval.nanoseconds == -7);
  CHECK(back[14].kind == ARROWWOOD_KIND_DECIMAL && back[14].unit == 1);
  CHECK(back[14].as.words[0] == 50 && back[14].as.words[1] == 10);
  CHECK(back[15].kind == ARROWWOOD_KIND_FLOAT32 && back[15].as.float64 == 0.25);
  OK(arrowwood_dataset_cells(dataset, 1, back, 16, &error));
  for (i = 0; i < 16; i++) CHECK(back[i].kind == ARROWWOOD_KIND_NULL && back[i].length == 0);
  arrowwood_dataset_free(dataset);
}

/* Appends Arrow data to one builder and a dataset to another, and compares the values. */
static void check_builders(const arrowwood_dataset *dataset) {
  struct ArrowSchema schema;
  struct ArrowArray array;
  arrowwood_builder *builder;
  arrowwood_dataset *built;
  OK(arrowwood_dataset_schema(dataset, &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  OK(arrowwood_dataset_batch(dataset, 0, 0, &array, &error));
  OK(arrowwood_builder_append(builder, &array, &schema, &error));
  CHECK(array.release == NULL);
  OK(arrowwood_builder_append_dataset(builder, dataset, &error));
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'dataset' is NULL", arrowwood_builder_finish(builder, NULL, &error));
  OK(arrowwood_builder_finish(builder, &built, &error));
  CHECK(count_rows(built) == 10 && is_text(cell(built, 9, 0), "MSFT"));
  arrowwood_dataset_free(built);
  OK(arrowwood_builder_new(&schema, &builder, &error));
  arrowwood_builder_free(builder);
  schema.release(&schema);
}

int main(int count, char **arguments) {
  arrowwood_dataset *dataset = build_sample();
  CHECK(count == 2);
  CHECK(arrowwood_abi_version() == ARROWWOOD_ABI_VERSION && strchr(arrowwood_version(), '.') != NULL);
  CHECK(strcmp(arrowwood_error_name(ARROWWOOD_ERROR_FILE_CHANGED), "file changed") == 0);
  CHECK(strcmp(arrowwood_error_name(-1), "unknown") == 0 && strcmp(arrowwood_error_name(15), "unknown") == 0);
  check_cells(dataset);
  check_columns(dataset);
  check_parts(dataset);
  check_values_inside(arguments[1]);
  check_reductions(dataset);
  check_predicates(dataset);
  check_deep_predicates(dataset);
  check_groups(dataset);
  check_row_selection(dataset);
  check_memory(arguments[1]);
  check_files(arguments[1]);
  check_exchange(dataset);
  check_chunks(dataset);
  check_every_kind();
  check_builders(dataset);
  arrowwood_dataset_free(dataset);
  puts("datasets: all as they should be");
  return 0;
}
