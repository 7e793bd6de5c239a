/* Functions for R's .C interface: all arguments are pointers, and strings come as char **. */
#include <arrowwood.h>

void column_sum(char **path, char **name, double *sum, char **message) {
  static arrowwood_error error; /* static, so that the message remains until R has copied it */
  arrowwood_dataset *dataset = NULL;
  arrowwood_value value;
  size_t column;
  arrowwood_error_clear(&error);
  (void)(arrowwood_open(*path, NULL, &dataset, &error) ||
         arrowwood_dataset_column_index(dataset, *name, &column, &error) ||
         arrowwood_dataset_reduce(dataset, column, ARROWWOOD_SUM, &value, &error) ||
         arrowwood_value_double(&value, sum, &error));
  arrowwood_dataset_free(dataset);
  if (error.code) *message = error.message;
}
