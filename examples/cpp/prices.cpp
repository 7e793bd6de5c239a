// Writes a table and reads it in place with arrowwood.hpp.
//
//   c++ -std=c++17 prices.cpp $(pkg-config --cflags --libs arrowwood) -o prices && ./prices prices
#include "arrowwood.hpp"

#include <iostream>

int main(int count, char **arguments) try {
  if (count != 2) throw std::invalid_argument("prices TABLE");
  const std::string path = arguments[1];

  arrowwood::Writer writer(path, "symbol: category, price: float64");
  for (int i = 0; i < 1000; i++) writer.append({arrowwood_text(i % 2 ? "IBM" : "AAPL"), arrowwood_float64(i)});
  writer.append({arrowwood_text("MSFT"), arrowwood_null()});
  writer.commit();
  writer.close();

  const arrowwood::Dataset prices(path);
  double sum = 0;
  for (const auto &chunk : prices.chunks("price")) {
    const arrowwood::Values<double> values{&chunk};
    for (uint64_t row = 0; row < chunk.rows; row++) {
      if (values.is_valid(row)) sum += values.begin()[row];
    }
  }
  const auto last = prices.slice(1, 1);
  std::cout << prices.rows() << " rows, sum " << sum << " by hand, "
            << prices.reduce("price", ARROWWOOD_SUM).as.float64 << " by the library\n";
  std::cout << arrowwood::text(last.row(0)[0]) << ' ' << last.row(0)[1].as.float64 << '\n';
  try {
    prices.column("cost");
  } catch (const arrowwood::Error &e) {
    std::cout << arrowwood_error_name(e.code) << '\n';
  }
  return 0;
} catch (const std::exception &e) {
  std::cerr << e.what() << '\n';
  return 1;
}
