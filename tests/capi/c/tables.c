/* Writes, follows, checks and repairs growing tables; truncates files under a reader. `tables FOLDER` */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char paths[8][4096];

static const char *path_in(const char *folder, const char *name) {
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static arrowwood_dataset *open_table(const char *path) {
  arrowwood_dataset *dataset;
  OK(arrowwood_open(path, NULL, &dataset, &error));
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

static int32_t append(arrowwood_writer *writer, int64_t ts, const char *symbol, double price, arrowwood_error *error) {
  arrowwood_value row[3];
  row[0] = arrowwood_timestamp(ts, ARROWWOOD_UNIT_MICROSECOND);
  row[1] = arrowwood_text(symbol);
  row[2] = arrowwood_float64(price);
  return arrowwood_writer_append_row(writer, row, 3, error);
}

static arrowwood_writer *create_writer(const char *path, uint64_t segment_rows) {
  static const char *const dictionary[] = {"symbol"};
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  struct ArrowSchema schema;
  arrowwood_writer *writer;
  options.dictionary = dictionary;
  options.dictionary_count = 1;
  options.sorted_by = "ts";
  options.segment_rows = segment_rows;
  OK(arrowwood_schema_parse("ts: timestamp[us] not null, symbol: utf8, price: float64", &schema, &error));
  OK(arrowwood_writer_open(path, &schema, &options, &writer, &error));
  schema.release(&schema);
  return writer;
}

/* Returns the number of positions with a name, and the last such position. */
static int count_positions(arrowwood_dataset *positions, const char *name, int64_t *value) {
  int count = 0;
  for (uint64_t row = 0; row < count_rows(positions); row++) {
    arrowwood_value text = cell(positions, row, 0);
    if (text.length == strlen(name) && memcmp(text.as.text, name, text.length) == 0) {
      *value = cell(positions, row, 1).as.int64;
      count++;
    }
  }
  return count;
}

static void test_positions_are_committed_with_rows(const char *path) {
  arrowwood_position both[] = {{"kafka/ticks/0", 17}, {"kafka/ticks/1", -3}};
  arrowwood_position bad[] = {{"kafka/ticks/0", 99}, {"", 1}};
  arrowwood_commit_options options = ARROWWOOD_COMMIT_OPTIONS_INIT;
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  arrowwood_writer *writer = create_writer(path, 0);
  arrowwood_dataset *positions, *table;
  int64_t value;
  OK(arrowwood_writer_positions(writer, &positions, &error));
  CHECK(count_rows(positions) == 0);
  arrowwood_dataset_free(positions);
  OK(append(writer, 1, "AAPL", 223.02, &error));
  options.positions = both;
  options.position_count = 2;
  OK(arrowwood_writer_commit_with(writer, &options, &error));
  options.position_count = 1; /* the other one keeps its value; there are no new rows */
  options.durable = 1;
  both[0].value = 18;
  OK(arrowwood_writer_commit_with(writer, &options, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.committed_rows == 1 && state.durable_rows == 1);
  OK(append(writer, 2, "IBM", 1.0, &error));
  options.positions = bad;
  options.position_count = 2;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "empty", arrowwood_writer_commit_with(writer, &options, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.rows == 2 && state.committed_rows == 1); /* still appended */
  OK(arrowwood_writer_commit_with(writer, NULL, &error));
  OK(arrowwood_writer_close(writer, &error));
  table = open_table(path);
  CHECK(count_rows(table) == 2);
  OK(arrowwood_dataset_positions(table, &positions, &error));
  CHECK(count_rows(positions) == 2);
  CHECK(count_positions(positions, "kafka/ticks/0", &value) == 1 && value == 18);
  CHECK(count_positions(positions, "kafka/ticks/1", &value) == 1 && value == -3);
  arrowwood_dataset_free(positions);
  writer = create_writer(path, 0);
  OK(arrowwood_writer_positions(writer, &positions, &error));
  CHECK(count_positions(positions, "kafka/ticks/0", &value) == 1 && value == 18);
  arrowwood_dataset_free(positions);
  arrowwood_writer_free(writer);
  arrowwood_dataset_free(table);
}

/* Reads a field in the header of a table's first segment: docs/format.md. */
static unsigned read_header_field(const char *path, size_t offset) {
  static unsigned char bytes[1 << 16];
  char name[4200];
  size_t at, size;
  FILE *file;
  snprintf(name, sizeof name, "%s/%020d.arrow", path, 0);
  file = fopen(name, "rb");
  CHECK(file != NULL);
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (at = 0; at < size && memcmp(bytes + at, "ArrwWood", 8) != 0; at += 4096) continue;
  CHECK(at + offset + 2 <= size);
  return bytes[at + offset] + 256u * bytes[at + offset + 1];
}

/* Checks that late rows are found where they were appended, and that a later writer accepts them too. */
static void test_late_rows(const char *path) {
  static const char *const index[] = {"symbol"}, *const unknown[] = {"symbol", "nothing"};
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  arrowwood_value low = arrowwood_int64(6), high = arrowwood_int64(7), symbol = arrowwood_text("b");
  arrowwood_predicate *predicate;
  arrowwood_dataset *table, *found;
  arrowwood_writer *writer;
  struct ArrowSchema schema;
  int64_t sorted;
  OK(arrowwood_schema_parse("ts: int64 not null, symbol: utf8", &schema, &error));
  options.late = 3;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "options.late",
        arrowwood_writer_open(path, &schema, &options, &writer, &error));
  options.late = ARROWWOOD_LATE_ACCEPT;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "sorted_by",
        arrowwood_writer_open(path, &schema, &options, &writer, &error));
  options.sorted_by = "ts";
  options.index = unknown;
  options.index_count = 2;
  FAILS(ARROWWOOD_ERROR_COLUMN_NOT_FOUND, "nothing",
        arrowwood_writer_open(path, &schema, &options, &writer, &error));
  options.index = index;
  options.index_count = 1;
  OK(arrowwood_writer_open(path, &schema, &options, &writer, &error));
  schema.release(&schema);
  for (int64_t i = 0; i < 4; i++) {
    static const int64_t times[] = {5, 8, 6, 7};
    arrowwood_value row[2];
    row[0] = arrowwood_int64(times[i]);
    row[1] = arrowwood_text(i % 2 ? "b" : "a");
    if (i == 3) { /* opened again, as it was created */
      OK(arrowwood_writer_close(writer, &error));
      OK(arrowwood_writer_open(path, NULL, NULL, &writer, &error));
    }
    OK(arrowwood_writer_append_row(writer, row, 2, &error));
  }
  OK(arrowwood_writer_close(writer, &error));
  CHECK(read_header_field(path, 108) == 2 && read_header_field(path, 110) == 1); /* zones of both columns, and late rows */
  options.late = ARROWWOOD_LATE_REFUSE;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "accepts", arrowwood_writer_open(path, NULL, &options, &writer, &error));
  table = open_table(path);
  OK(arrowwood_dataset_between(table, &low, &high, &found, &error));
  CHECK(count_rows(found) == 2 && cell(found, 0, 0).as.int64 == 6 && cell(found, 1, 0).as.int64 == 7);
  arrowwood_dataset_free(found);
  OK(arrowwood_predicate_compare("symbol", ARROWWOOD_EQ, &symbol, &predicate, &error));
  OK(arrowwood_dataset_filter(table, predicate, &found, &error));
  CHECK(count_rows(found) == 2 && cell(found, 0, 0).as.int64 == 8);
  arrowwood_dataset_free(found);
  arrowwood_predicate_free(predicate);
  OK(arrowwood_dataset_sorted_by(table, &sorted, &error));
  CHECK(sorted == -1); /* nothing may rely on their order */
  arrowwood_dataset_free(table);
}

/* Checks that values of rows with any zone can be appended again, also to a table that accepts late rows. */
static void test_times_of_any_zone(const char *path, enum arrowwood_late late) {
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  arrowwood_value time, row[2];
  arrowwood_predicate *predicate;
  arrowwood_dataset *table, *found;
  arrowwood_writer *writer;
  struct ArrowSchema schema;
  options.sorted_by = "ts";
  options.late = late;
  OK(arrowwood_schema_parse("ts: timestamp[ms, Europe/Zurich] not null, naive: timestamp[ms]", &schema, &error));
  OK(arrowwood_writer_open(path, &schema, &options, &writer, &error));
  schema.release(&schema);
  row[0] = row[1] = arrowwood_int64(1000);
  OK(arrowwood_writer_append_row(writer, row, 2, &error));
  OK(arrowwood_writer_commit(writer, 0, &error));
  table = open_table(path);
  time = cell(table, 0, 0);
  CHECK(time.kind == ARROWWOOD_KIND_TIMESTAMP && time.as.timestamp.zone != NULL);
  row[0] = time;
  row[1] = cell(table, 0, 1);
  OK(arrowwood_writer_append_row(writer, row, 2, &error));
  row[1] = time;
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "no time zone", arrowwood_writer_append_row(writer, row, 2, &error));
  row[0] = row[1] = arrowwood_timestamp(1000, ARROWWOOD_UNIT_MILLISECOND);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "not in UTC", arrowwood_writer_append_row(writer, row, 2, &error));
  OK(arrowwood_writer_close(writer, &error));
  arrowwood_dataset_free(table);
  table = open_table(path);
  OK(arrowwood_predicate_compare("ts", ARROWWOOD_EQ, &time, &predicate, &error));
  OK(arrowwood_dataset_filter(table, predicate, &found, &error));
  CHECK(count_rows(found) == 2);
  arrowwood_dataset_free(found);
  arrowwood_predicate_free(predicate);
  OK(arrowwood_dataset_between(table, &time, &time, &found, &error));
  CHECK(count_rows(found) == 2);
  arrowwood_dataset_free(found);
  arrowwood_dataset_free(table);
}

/* Checks that a writer with a newer schema changes the table: existing rows get nulls in a new column, and are widened. */
static void test_schema_change(const char *path) {
  static const char *const schemas[] = {"n: int32", "n: int64, vol: float64"};
  for (int32_t round = 0; round < 2; round++) {
    struct ArrowSchema schema;
    arrowwood_writer *writer;
    arrowwood_value row[2];
    OK(arrowwood_schema_parse(schemas[round], &schema, &error));
    OK(arrowwood_writer_open(path, &schema, NULL, &writer, &error));
    schema.release(&schema);
    row[0] = arrowwood_int64(round ? INT64_C(1) << 40 : 7);
    row[1] = arrowwood_float64(0.5);
    OK(arrowwood_writer_append_row(writer, row, (uint64_t)round + 1, &error));
    OK(arrowwood_writer_close(writer, &error));
  }
  arrowwood_dataset *table = open_table(path);
  CHECK(count_rows(table) == 2);
  CHECK(cell(table, 0, 0).as.int64 == 7 && cell(table, 0, 1).kind == ARROWWOOD_KIND_NULL);
  CHECK(cell(table, 1, 0).as.int64 == INT64_C(1) << 40 && cell(table, 1, 1).as.float64 == 0.5);
  arrowwood_dataset_free(table);
  struct ArrowSchema narrow;
  arrowwood_writer *refused;
  OK(arrowwood_schema_parse(schemas[0], &narrow, &error));
  FAILS(ARROWWOOD_ERROR_SCHEMA_MISMATCH, "'vol' is not in the given one",
        arrowwood_writer_open(path, &narrow, NULL, &refused, &error));
  narrow.release(&narrow);
}

static void test_write_and_read(const char *path) {
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  arrowwood_writer *writer = create_writer(path, 0), *other;
  arrowwood_dataset *before, *after, *between;
  struct ArrowSchema schema;
  arrowwood_value low = arrowwood_int64(2), high = arrowwood_timestamp(3, ARROWWOOD_UNIT_MICROSECOND);
  int64_t sorted;
  FAILS(ARROWWOOD_ERROR_BUSY, "being written", arrowwood_writer_open(path, NULL, NULL, &other, &error));
  OK(append(writer, 1, "AAPL", 223.02, &error));
  OK(append(writer, 2, NULL, 125.55, &error));
  before = open_table(path);
  CHECK(count_rows(before) == 0); /* nothing was committed */
  OK(arrowwood_writer_commit(writer, 0, &error));
  OK(arrowwood_dataset_refresh(before, &after, &error));
  CHECK(count_rows(before) == 0 && count_rows(after) == 2);
  arrowwood_dataset_free(before);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "'ts'", append(writer, 1, "IBM", 1.0, &error)); /* out of order */
  OK(append(writer, 3, "IBM", 1.0, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.size == sizeof state && state.rows == 3 && state.committed_rows == 2 && state.dropped_rows == 0);
  OK(arrowwood_writer_rollback(writer, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.rows == 2);
  OK(append(writer, 3, "MSFT", 28.8, &error));
  OK(arrowwood_writer_commit(writer, 1, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(state.rows == 3 && state.committed_rows == 3 && state.durable_rows == 3);
  OK(arrowwood_writer_sync(writer, &error));
  OK(arrowwood_writer_wait_durable(writer, &error));
  OK(arrowwood_dataset_refresh(after, &before, &error));
  arrowwood_dataset_free(after);
  OK(arrowwood_dataset_between(before, &low, &high, &between, &error));
  CHECK(count_rows(between) == 2 && cell(between, 1, 2).as.float64 == 28.8);
  CHECK(cell(between, 0, 1).kind == ARROWWOOD_KIND_NULL && cell(between, 1, 1).length == 4);
  arrowwood_dataset_free(between);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "between",
        (low = arrowwood_text("x"), arrowwood_dataset_between(before, &low, &high, &between, &error)));
  OK(arrowwood_dataset_sorted_by(before, &sorted, &error));
  CHECK(sorted == 0);
  OK(arrowwood_writer_schema(writer, &schema, &error));
  CHECK(schema.n_children == 3 && schema.children[1]->dictionary != NULL);
  schema.release(&schema);
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_writer_close(NULL, &error));
  arrowwood_dataset_free(before);
}

static void test_append_arrow_data(const char *path) {
  arrowwood_writer *writer;
  arrowwood_dataset *rows = open_table(path), *wrong, *after;
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray array;
  size_t last[] = {2}, swapped[] = {2, 1, 0};
  OK(arrowwood_writer_open(path, NULL, NULL, &writer, &error)); /* the schema is known */
  /* The same times again: not before the last. */
  OK(arrowwood_dataset_slice(rows, 2, 1, &wrong, &error));
  arrowwood_dataset_free(rows);
  OK(arrowwood_dataset_select(wrong, swapped, 3, &rows, &error)); /* columns are found by name */
  arrowwood_dataset_free(wrong);
  OK(arrowwood_writer_append_dataset(writer, rows, &error));
  OK(arrowwood_dataset_stream(rows, 0, &stream, &error));
  OK(arrowwood_writer_append_stream(writer, &stream, &error));
  CHECK(stream.release == NULL);
  OK(arrowwood_dataset_batch(rows, 0, 0, &array, &error));
  OK(arrowwood_dataset_schema(rows, &schema, &error));
  OK(arrowwood_writer_append(writer, &array, &schema, &error));
  CHECK(array.release == NULL);
  schema.release(&schema);
  OK(arrowwood_dataset_select(rows, last, 1, &wrong, &error));
  FAILS(ARROWWOOD_ERROR_SCHEMA_MISMATCH, "", arrowwood_writer_append_dataset(writer, wrong, &error));
  arrowwood_dataset_free(wrong);
  OK(arrowwood_writer_close(writer, &error)); /* commits */
  after = open_table(path);
  CHECK(count_rows(after) == 6 && cell(after, 5, 2).as.float64 == 28.8);
  arrowwood_dataset_free(after);
  arrowwood_dataset_free(rows);
}

/* Freeing a writer discards uncommitted rows. */
static void test_free_discards_uncommitted_rows(const char *path) {
  arrowwood_writer *writer;
  arrowwood_dataset *after;
  OK(arrowwood_writer_open(path, NULL, NULL, &writer, &error));
  OK(append(writer, 99, "IBM", 0, &error));
  arrowwood_writer_free(writer);
  after = open_table(path);
  CHECK(count_rows(after) == 6);
  arrowwood_dataset_free(after);
}

static void count_progress(void *context, uint64_t done, uint64_t total) {
  uint64_t *calls = (uint64_t *)context;
  CHECK(done <= total);
  ++*calls;
}

static void test_compact_drop_and_check(const char *path) {
  arrowwood_writer *writer = create_writer(path, 100);
  arrowwood_dataset *before, *after;
  arrowwood_stat stat = ARROWWOOD_STAT_INIT;
  arrowwood_report report = ARROWWOOD_REPORT_INIT;
  uint64_t number, calls = 0, first;
  int i;
  for (i = 0; i < 1000; i++) OK(append(writer, i, i % 2 ? "odd" : "even", i, &error));
  OK(arrowwood_writer_commit(writer, 0, &error));
  before = open_table(path);
  OK(arrowwood_table_stat(path, &stat, &error));
  CHECK(stat.segments == 10 && stat.dense == 0 && stat.end == 1000 && stat.first_row == 0 && stat.segment_rows == 100);
  CHECK(stat.writer == (int32_t)getpid() && stat.is_live == 1 && stat.disk > 0 && stat.apparent >= stat.disk);
  OK(arrowwood_writer_compact(writer, count_progress, &calls, &number, &error));
  CHECK(number == 9 && calls >= 9);
  OK(arrowwood_writer_drop_before(writer, 250, &number, &error));
  CHECK(number == 200);
  CHECK(count_rows(before) == 1000); /* mapped rows survive */
  after = open_table(path);
  OK(arrowwood_dataset_first_row(after, &first, &error));
  CHECK(first == 200 && count_rows(after) == 800 && cell(after, 0, 2).as.float64 == 200);
  arrowwood_dataset_free(after);
  arrowwood_dataset_free(before);
  FAILS(ARROWWOOD_ERROR_BUSY, "being written", arrowwood_compact(path, NULL, NULL, NULL, &error));
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_compact(path, NULL, NULL, &number, &error));
  CHECK(number == 1);
  OK(arrowwood_table_stat(path, &stat, &error));
  CHECK(stat.segments == 8 && stat.dense == 8 && stat.writer == 0);
  calls = 0;
  OK(arrowwood_check(path, count_progress, &calls, &report, NULL, &error));
  CHECK(report.rows == 800 && report.segments == 8 && report.damaged == 0 && calls > 0);
  FAILS(ARROWWOOD_ERROR_NOT_FOUND, "no table", arrowwood_table_stat("/proc", &stat, &error));
}

static void test_follow(const char *path) {
  arrowwood_writer *writer = create_writer(path, 10);
  arrowwood_dataset *table = open_table(path), *rows, *part;
  arrowwood_follower *all, *new_ones;
  uint64_t next, seen = 0;
  int i;
  OK(append(writer, 0, "IBM", 0, &error));
  OK(arrowwood_writer_commit(writer, 0, &error));
  OK(arrowwood_follow(table, 0, &all, &error));
  OK(arrowwood_follow(table, -1, &new_ones, &error));
  OK(arrowwood_follower_next(new_ones, 0, &rows, &error));
  CHECK(rows == NULL);
  OK(arrowwood_follower_next(new_ones, 20, &rows, &error));
  CHECK(rows == NULL);
  for (i = 1; i < 100; i++) {
    OK(append(writer, i, "IBM", i, &error));
    OK(arrowwood_writer_commit(writer, 0, &error));
    OK(arrowwood_follower_next(new_ones, -1, &rows, &error));
    CHECK(rows != NULL && count_rows(rows) == 1 && cell(rows, 0, 2).as.float64 == i);
    arrowwood_dataset_free(rows);
  }
  while (seen < 100) {
    OK(arrowwood_follower_next(all, -1, &rows, &error));
    CHECK(cell(rows, 0, 2).as.float64 == (double)seen);
    seen += count_rows(rows);
    arrowwood_dataset_free(rows);
  }
  OK(arrowwood_follower_next_row(all, &next, &error));
  CHECK(next == 100);
  OK(arrowwood_dataset_slice(table, 0, 0, &part, &error));
  {
    arrowwood_follower *none;
    FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "whole table", arrowwood_follow(part, 0, &none, &error));
  }
  arrowwood_dataset_free(part);
  arrowwood_dataset_free(table);
  arrowwood_follower_free(new_ones);
  OK(arrowwood_writer_close(writer, &error));
  OK(arrowwood_follower_next(all, 0, &rows, &error)); /* followers live without the dataset and the writer */
  CHECK(rows == NULL);
  arrowwood_follower_free(all);
}

/* Breaks the UTF-8 of a text. The check must find it, and the repair keep the batches before it. */
static void test_repair_of_a_damaged_file(const char *path) {
  arrowwood_write_options write = ARROWWOOD_WRITE_OPTIONS_INIT;
  arrowwood_report report = ARROWWOOD_REPORT_INIT;
  arrowwood_builder *builder;
  arrowwood_dataset *rows, *findings, *moved;
  struct ArrowSchema schema;
  FILE *file;
  char text[16];
  long at;
  int i, c, matched = 0;
  OK(arrowwood_schema_parse("name: utf8 not null", &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  for (i = 0; i < 30; i++) {
    arrowwood_value value = arrowwood_text_of(text, (size_t)snprintf(text, sizeof text, "name-%02d", i));
    OK(arrowwood_builder_append_row(builder, &value, 1, &error));
  }
  OK(arrowwood_builder_finish(builder, &rows, &error));
  write.max_rows = 10;
  OK(arrowwood_write(rows, path, &write, &error));
  arrowwood_dataset_free(rows);
  file = fopen(path, "r+b");
  for (at = 0; matched < 7 && (c = fgetc(file)) != EOF; at++) matched = c == "name-25"[matched] ? matched + 1 : c == 'n';
  CHECK(matched == 7 && fseek(file, at - 7, SEEK_SET) == 0 && fputc(0xff, file) == 0xff);
  fclose(file);
  OK(arrowwood_check(path, NULL, NULL, &report, &findings, &error));
  CHECK(report.rows == 30 && report.batches == 3 && report.damaged == 1 && count_rows(findings) == 1);
  CHECK(cell(findings, 0, 3).as.int64 == 1 && strstr(cell(findings, 0, 2).as.text, "UTF-8") != NULL);
  arrowwood_dataset_free(findings);
  rows = open_table(path);
  FAILS(ARROWWOOD_ERROR_INVALID_DATA, "row 5", arrowwood_dataset_validate(rows, NULL, NULL, &error));
  arrowwood_dataset_free(rows);
  OK(arrowwood_repair(path, NULL, NULL, &report, &findings, &moved, &error));
  CHECK(report.kept == 20 && report.given_up == 10 && report.rows == 20 && report.batches == 2);
  CHECK(count_rows(findings) == 1 && count_rows(moved) == 1 && strstr(cell(moved, 0, 0).as.text, ".damaged") != NULL);
  arrowwood_dataset_free(findings);
  arrowwood_dataset_free(moved);
  rows = open_table(path);
  CHECK(count_rows(rows) == 20);
  OK(arrowwood_dataset_validate(rows, NULL, NULL, &error));
  arrowwood_dataset_free(rows);
}

/* Repair neither changes nor moves files that are not Arrow data. */
static void test_repair_refuses_other_files(const char *path) {
  static const char text[] = "symbol,price\nAAPL,1\n";
  arrowwood_report report = ARROWWOOD_REPORT_INIT;
  char found[sizeof text], aside[1024];
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "does not begin as an Arrow file",
        arrowwood_repair(path, NULL, NULL, &report, NULL, NULL, &error));
  file = fopen(path, "rb");
  CHECK(file != NULL && fread(found, 1, sizeof found, file) == strlen(text) && memcmp(found, text, strlen(text)) == 0);
  fclose(file);
  snprintf(aside, sizeof aside, "%s.damaged", path);
  CHECK(fopen(aside, "rb") == NULL);
}

static void write_numbers(const char *path) {
  arrowwood_builder *builder;
  arrowwood_dataset *rows;
  struct ArrowSchema schema;
  int i;
  OK(arrowwood_schema_parse("n: int64 not null, text: utf8 not null", &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  for (i = 0; i < 20000; i++) {
    arrowwood_value row[2];
    row[0] = arrowwood_int64(i);
    row[1] = arrowwood_text("a text of some length");
    OK(arrowwood_builder_append_row(builder, row, 2, &error));
  }
  OK(arrowwood_builder_finish(builder, &rows, &error));
  OK(arrowwood_write(rows, path, NULL, &error));
  arrowwood_dataset_free(rows);
}

static void test_truncation_under_a_reader(const char *path) {
  arrowwood_dataset *rows;
  arrowwood_chunks *owner;
  const arrowwood_chunk *chunks;
  arrowwood_value text, value;
  char copy[64];
  double *numbers = (double *)malloc(160000);
  size_t count;
  write_numbers(path);
  rows = open_table(path);
  CHECK(count_rows(rows) == 20000);
  text = cell(rows, 19999, 1);
  OK(arrowwood_dataset_reduce(rows, 0, ARROWWOOD_SUM, &value, &error));
  OK(arrowwood_dataset_chunks(rows, 0, 0, &chunks, &count, &owner, &error));
  OK(arrowwood_copy(copy, text.as.text, text.length, &error));
  OK(arrowwood_copy(numbers, chunks[0].values.data, 160000, &error));
  CHECK(memcmp(copy, "a text", 6) == 0);
  CHECK(truncate(path, 4096) == 0);
  FAILS(ARROWWOOD_ERROR_FILE_CHANGED, path, arrowwood_dataset_reduce(rows, 0, ARROWWOOD_SUM, &value, &error));
  FAILS(ARROWWOOD_ERROR_FILE_CHANGED, "truncated", arrowwood_copy(copy, text.as.text, text.length, &error));
  FAILS(ARROWWOOD_ERROR_FILE_CHANGED, path, arrowwood_copy(numbers, chunks[0].values.data, 160000, &error));
  {
    uint64_t column = 1;
    FAILS(ARROWWOOD_ERROR_FILE_CHANGED, path, arrowwood_dataset_value(rows, 19999, &column, 1, &value, &error));
  }
  OK(arrowwood_copy(NULL, text.as.text, 0, &error));
  FAILS(ARROWWOOD_ERROR_BUSY, "mapped before", arrowwood_leave_sigbus_alone(&error));
  arrowwood_chunks_free(owner);
  arrowwood_dataset_free(rows);
  free(numbers);
}

/* Reads truncated pages in a child process. Returns its exit status, or the negated signal that ended it. */
static int run_child(const char *program, const char *path, const char *way, const char *environment) {
  int status;
  pid_t child;
  write_numbers(path);
  child = fork();
  if (child == 0) {
    if (environment != NULL) setenv("ARROWWOOD_SIGBUS", environment, 1);
    execl(program, program, way, path, (char *)NULL);
    _exit(99);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void exit_with_11(int signal) {
  (void)signal;
  _exit(11);
}

/* Runs in a child of `end_of`: exits 3 if the call returns FILE_CHANGED, 11 if the process's handler gets SIGBUS. */
static int read_truncated_file(const char *way, const char *path) {
  arrowwood_dataset *rows;
  arrowwood_value value;
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  struct sigaction action;
  int code;
  memset(&action, 0, sizeof action);
  action.sa_handler = exit_with_11;
  CHECK(sigaction(SIGBUS, &action, NULL) == 0);
  if (strcmp(way, "alone") == 0) {
    OK(arrowwood_leave_sigbus_alone(&error));
    OK(arrowwood_leave_sigbus_alone(&error));
  }
  rows = open_table(path);
  OK(arrowwood_dataset_reduce(rows, 0, ARROWWOOD_SUM, &value, &error)); /* caches the location of the values */
  CHECK(truncate(path, 4096) == 0);
  code = arrowwood_dataset_reduce(rows, 0, ARROWWOOD_SUM, &value, &error);
  arrowwood_dataset_free(rows);
  arrowwood_error_clear(&error);
  return code == ARROWWOOD_ERROR_FILE_CHANGED ? 3 : 4;
}

int main(int count, char **arguments) {
  const char *folder = arguments[1];
  if (count == 3) return read_truncated_file(arguments[1], arguments[2]);
  CHECK(count == 2);
  test_write_and_read(path_in(folder, "ticks"));
  test_positions_are_committed_with_rows(path_in(folder, "positions"));
  test_late_rows(path_in(folder, "late"));
  test_times_of_any_zone(path_in(folder, "zones"), ARROWWOOD_LATE_REFUSE);
  test_times_of_any_zone(path_in(folder, "late-zones"), ARROWWOOD_LATE_ACCEPT);
  test_schema_change(path_in(folder, "changed"));
  test_append_arrow_data(path_in(folder, "ticks"));
  test_free_discards_uncommitted_rows(path_in(folder, "ticks"));
  test_compact_drop_and_check(path_in(folder, "kept"));
  test_follow(path_in(folder, "followed"));
  test_repair_of_a_damaged_file(path_in(folder, "damaged.arrow"));
  test_repair_refuses_other_files(path_in(folder, "prices.csv"));
  test_truncation_under_a_reader(path_in(folder, "cut.arrow"));
  CHECK(run_child(arguments[0], path_in(folder, "ended.arrow"), "handled", NULL) == 3);
  CHECK(run_child(arguments[0], path_in(folder, "ended.arrow"), "alone", NULL) == 11);
  CHECK(run_child(arguments[0], path_in(folder, "ended.arrow"), "handled", "off") == 11);
  puts("tables: all as they should be");
  return 0;
}
