/* Prints the first number of each row of a table on arrival, from row START on, until it has printed ROWS rows:
 * `follow [START] TABLE ROWS` */
#include "check.h"

int main(int count, char **arguments) {
  const char *table = arguments[count - 2];
  uint64_t end = strtoull(arguments[count - 1], NULL, 10), next;
  arrowwood_follower *follower;
  arrowwood_dataset *rows;
  CHECK(count == 3 || count == 4);
  next = count == 4 ? strtoull(arguments[1], NULL, 10) : 0;
  OK(arrowwood_open(table, NULL, &rows, &error));
  OK(arrowwood_follow(rows, (int64_t)next, &follower, &error));
  arrowwood_dataset_free(rows);
  while (next < end) {
    uint64_t row, count, first_row, column = 0;
    OK(arrowwood_follower_next(follower, 240000, &rows, &error));
    CHECK(rows != NULL);
    OK(arrowwood_dataset_num_rows(rows, &count, &error));
    OK(arrowwood_dataset_first_row(rows, &first_row, &error));
    for (row = 0; row < count; row++) {
      arrowwood_value value;
      OK(arrowwood_dataset_value(rows, row, &column, 1, &value, &error));
      printf("%lld\n", (long long)value.as.int64);
    }
    /* Flushed, so that the test can read the progress. */
    CHECK(fflush(stdout) == 0);
    arrowwood_dataset_free(rows);
    OK(arrowwood_follower_next_row(follower, &next, &error));
  }
  arrowwood_follower_free(follower);
  return 0;
}
