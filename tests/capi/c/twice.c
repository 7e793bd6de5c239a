/* Frees a dataset twice, which the library must detect. */
#include "check.h"

int main(void) {
  arrowwood_dataset *dataset;
  struct ArrowSchema schema;
  arrowwood_builder *builder;
  uint64_t rows;
  OK(arrowwood_schema_parse("n: int64", &schema, &error));
  OK(arrowwood_builder_new(&schema, &builder, &error));
  schema.release(&schema);
  OK(arrowwood_builder_finish(builder, &dataset, &error));
  arrowwood_dataset_free(dataset);
  arrowwood_dataset_free(dataset);
  FAILS(ARROWWOOD_ERROR_INVALID_ARGUMENT, "was freed", arrowwood_dataset_num_rows(dataset, &rows, &error));
  puts("refused");
  return 0;
}
