// Batches that an exception ends, and one that is closed without a commit.
#include <arrowwood.hpp>

static void fail(const std::string &table) {
  arrowwood::Writer writer(table, "n: int64");
  writer.append({arrowwood_int64(0)});
  writer.commit();
  writer.append({arrowwood_int64(1)});
  throw std::runtime_error("a message that can't be parsed");
}

int main(int, char **arguments) {
  const std::string table = arguments[1];
  try {
    fail(table);
  } catch (const std::runtime_error &e) {
    std::cout << e.what() << '\n';
  }
  arrowwood::Writer writer(table, "n: int64");
  writer.append({arrowwood_int64(2)});
  writer.append({arrowwood_int64(3)});
  std::cout << writer.close() << " discarded, " << arrowwood::Dataset(table).rows() << " there\n";
}
