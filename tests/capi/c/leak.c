/* `leak KIND` leaks an object of that kind, which the leak check must notice; without KIND, frees everything. */
#include "check.h"

int main(int count, char **arguments) {
  const char *kind = count > 1 ? arguments[1] : "";
  arrowwood_value row = arrowwood_int64(1);
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  arrowwood_dataset *dataset;
  arrowwood_chunks *owner;
  arrowwood_builder *builder;
  const arrowwood_chunk *chunks;
  struct ArrowSchema schema;
  struct ArrowArray array;
  size_t chunk_count;
  char *text;
  OK(arrowwood_schema_parse("n: int64", &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  if (strcmp(kind, "schema") != 0) schema.release(&schema);
  OK(arrowwood_builder_append_row(builder, &row, 1, &error));
  OK(arrowwood_builder_finish(builder, &dataset, &error));
  OK(arrowwood_dataset_batch(dataset, 0, 0, &array, &error));
  if (strcmp(kind, "array") != 0) array.release(&array);
  OK(arrowwood_dataset_chunks(dataset, 0, 0, &chunks, &chunk_count, &owner, &error));
  if (strcmp(kind, "chunks") != 0) arrowwood_chunks_free(owner);
  OK(arrowwood_dataset_display(dataset, 0, 0, &text, &error));
  if (strcmp(kind, "text") != 0) arrowwood_string_free(text);
  if (strcmp(kind, "dataset") != 0) arrowwood_dataset_free(dataset);
  CHECK(arrowwood_open("none", NULL, &dataset, &error) == ARROWWOOD_ERROR_NOT_FOUND);
  if (strcmp(kind, "error") != 0) arrowwood_error_clear(&error);
  memset(&error, 0, sizeof error);
  memset(&schema, 0, sizeof schema);
  memset(&array, 0, sizeof array);
  dataset = NULL;
  owner = NULL;
  text = NULL;
  chunks = NULL;
  return 0;
}
