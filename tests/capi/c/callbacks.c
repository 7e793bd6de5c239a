/* Tests callbacks that call the library. The writer, builder or follower whose function runs the callback is busy; other
 * handles work. */
#define _GNU_SOURCE
#include "check.h"

#define FAILS_AS_BUSY(call) FAILS(ARROWWOOD_ERROR_BUSY, "callback", call)

static struct ArrowSchema schema;
static arrowwood_writer *writer;
static arrowwood_builder *builder;
static int calls;

static uint64_t count_rows(const char *path) {
  arrowwood_dataset *rows;
  uint64_t count;
  OK(arrowwood_open(path, NULL, &rows, &error));
  OK(arrowwood_dataset_num_rows(rows, &count, &error));
  arrowwood_dataset_free(rows);
  return count;
}

static void use_busy_writer(void *context, uint64_t done, uint64_t total) {
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  const arrowwood_value value = arrowwood_int64(1);
  struct ArrowSchema exported;
  arrowwood_dataset *positions;
  CHECK(context == &calls && done <= total);
  calls++;
  FAILS_AS_BUSY(arrowwood_writer_progress(writer, &state, &error));
  FAILS_AS_BUSY(arrowwood_writer_append_row(writer, &value, 1, &error));
  FAILS_AS_BUSY(arrowwood_writer_commit(writer, 0, &error));
  FAILS_AS_BUSY(arrowwood_writer_commit_with(writer, NULL, &error));
  FAILS_AS_BUSY(arrowwood_writer_sync(writer, &error));
  FAILS_AS_BUSY(arrowwood_writer_wait_durable(writer, &error));
  FAILS_AS_BUSY(arrowwood_writer_rollback(writer, &error));
  FAILS_AS_BUSY(arrowwood_writer_positions(writer, &positions, &error));
  FAILS_AS_BUSY(arrowwood_writer_schema(writer, &exported, &error));
  FAILS_AS_BUSY(arrowwood_writer_drop_before(writer, 0, NULL, &error));
  FAILS_AS_BUSY(arrowwood_writer_compact(writer, use_busy_writer, context, NULL, &error));
  FAILS_AS_BUSY(arrowwood_writer_close(writer, &error));
  arrowwood_writer_free(writer);
  CHECK(count_rows("table") == 5000);
}

static void open_second_writer(void *context, uint64_t done, uint64_t total) {
  arrowwood_writer *other;
  (void)done, (void)total;
  ++*(int *)context;
  FAILS(ARROWWOOD_ERROR_BUSY, "table", arrowwood_writer_open("table", NULL, NULL, &other, &error));
  CHECK(count_rows("table") == 5000);
}

/* Opens a writer during a check, which takes no lock. */
static void write_during_check(void *context, uint64_t done, uint64_t total) {
  arrowwood_writer *other;
  arrowwood_report report = ARROWWOOD_REPORT_INIT;
  (void)done, (void)total;
  ++*(int *)context;
  OK(arrowwood_writer_open("table", NULL, NULL, &other, &error));
  OK(arrowwood_writer_close(other, &error));
  OK(arrowwood_check("table", NULL, NULL, &report, NULL, &error));
}

/* A stream whose callbacks use the library. */
static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  uint64_t count;
  (void)stream;
  OK(arrowwood_builder_rows(builder, &count, &error));
  OK(arrowwood_schema_parse("n: int64 not null", out, &error));
  return 0;
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  const arrowwood_value value = arrowwood_int64(7);
  (void)stream;
  OK(arrowwood_writer_append_row(writer, &value, 1, &error));
  calls++;
  memset(out, 0, sizeof *out);
  return 0;
}

static const char *stream_get_last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL;
}

static void stream_release(struct ArrowArrayStream *stream) {
  const arrowwood_value value = arrowwood_int64(8);
  OK(arrowwood_writer_append_row(writer, &value, 1, &error));
  stream->release = NULL;
  calls++;
}

/* Releases memory, and uses the builder that copied it. */
static void release_memory(void *context) {
  uint64_t count;
  OK(arrowwood_builder_rows(builder, &count, &error));
  ++*(int *)context;
}

static void write_rows(void) {
  arrowwood_writer_options options = ARROWWOOD_WRITER_OPTIONS_INIT;
  options.segment_rows = 1024;
  OK(arrowwood_writer_open("table", &schema, &options, &writer, &error));
  for (int i = 0; i < 5000; i++) {
    const arrowwood_value value = arrowwood_int64(i);
    OK(arrowwood_writer_append_row(writer, &value, 1, &error));
  }
  OK(arrowwood_writer_commit(writer, 0, &error));
}

static void test_progress_callbacks(void) {
  arrowwood_report report = ARROWWOOD_REPORT_INIT;
  arrowwood_dataset *rows;
  OK(arrowwood_writer_compact(writer, use_busy_writer, &calls, NULL, &error));
  CHECK(calls > 0);
  OK(arrowwood_writer_close(writer, &error));
  calls = 0;
  OK(arrowwood_check("table", write_during_check, &calls, &report, NULL, &error));
  CHECK(calls > 0);
  calls = 0;
  OK(arrowwood_compact("table", open_second_writer, &calls, NULL, &error));
  CHECK(calls > 0);
  calls = 0;
  OK(arrowwood_repair("table", open_second_writer, &calls, &report, NULL, NULL, &error));
  CHECK(calls > 0);
  calls = 0;
  OK(arrowwood_open("table", NULL, &rows, &error));
  OK(arrowwood_dataset_validate(rows, write_during_check, &calls, &error));
  CHECK(calls > 0);
  arrowwood_dataset_free(rows);
}

static void test_stream_and_release_callbacks(void) {
  struct ArrowArrayStream stream = {stream_get_schema, stream_get_next, stream_get_last_error, stream_release, NULL};
  arrowwood_writer_state state = ARROWWOOD_WRITER_STATE_INIT;
  arrowwood_dataset *rows;
  uint64_t count;
  OK(arrowwood_builder_new(&schema, &builder, &error));
  OK(arrowwood_writer_open("streamed", &schema, NULL, &writer, &error));
  calls = 0;
  OK(arrowwood_writer_append_stream(writer, &stream, &error));
  OK(arrowwood_writer_progress(writer, &state, &error));
  CHECK(calls == 2 && state.rows == 2);
  OK(arrowwood_writer_close(writer, &error));

  static char bytes[1 << 16];
  OK(arrowwood_open("streamed", NULL, &rows, &error));
  OK(arrowwood_write(rows, "memory.arrow", NULL, &error));
  arrowwood_dataset_free(rows);
  FILE *file = fopen("memory.arrow", "rb");
  const size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  calls = 0;
  OK(arrowwood_open_memory(bytes, length, release_memory, &calls, NULL, &rows, &error));
  OK(arrowwood_builder_append_dataset(builder, rows, &error));
  arrowwood_dataset_free(rows);
  CHECK(calls == 1);
  OK(arrowwood_builder_rows(builder, &count, &error));
  CHECK(count == 2);
  arrowwood_builder_free(builder);
}

int main(void) {
  OK(arrowwood_schema_parse("n: int64 not null", &schema, &error));
  write_rows();
  test_progress_callbacks();
  test_stream_and_release_callbacks();
  schema.release(&schema);
  return 0;
}
