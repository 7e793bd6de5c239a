// Arrowwood in C++17: handles that free themselves, errors as exceptions. Copy it, and extend it as needed.
#pragma once

#include <arrowwood.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace arrowwood {

// A failure of the library: what() returns its message, code is one of arrowwood_error_code.
struct Error : std::runtime_error {
  Error(int32_t code, int32_t os_error, const char *message)
      : std::runtime_error(message), code(code), os_error(os_error) {}
  int32_t code, os_error;
};

// Calls a function of the library with an error as its last argument; throws the failure.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  arrowwood_error error = ARROWWOOD_ERROR_INIT;
  if (function(arguments..., &error) == 0) return;
  Error thrown(error.code, error.os_error, error.message);
  arrowwood_error_clear(&error);
  throw thrown;
}

// Calls a function that returns a handle or value through its last argument.
template <typename Made, typename Function, typename... Arguments>
Made make(Function function, Arguments... arguments) {
  Made made{};
  call(function, arguments..., &made);
  return made;
}

template <auto release>
struct Free {
  template <typename Handle>
  void operator()(Handle *handle) const { release(handle); }
};

// One chunk of a column of numbers, as a range.
template <typename Number>
struct Values {
  const arrowwood_chunk *chunk;
  const Number *begin() const { return static_cast<const Number *>(chunk->values.data); }
  const Number *end() const { return begin() + chunk->rows; }
  bool is_valid(uint64_t row) const { return arrowwood_chunk_is_valid(chunk, row) != 0; }
};

// The chunks of a column; owns their memory.
class Chunks {
 public:
  Chunks(const arrowwood_dataset *dataset, size_t column) {
    arrowwood_chunks *made;
    call(arrowwood_dataset_chunks, dataset, column, uint32_t{ARROWWOOD_ALIGNED}, &first, &count, &made);
    owner.reset(made);
  }
  const arrowwood_chunk *begin() const { return first; }
  const arrowwood_chunk *end() const { return first + count; }

 private:
  const arrowwood_chunk *first;
  size_t count;
  std::unique_ptr<arrowwood_chunks, Free<arrowwood_chunks_free>> owner;
};

// Rows, in place. Copies refer to the same rows.
class Dataset {
 public:
  explicit Dataset(const std::string &path) : Dataset(make<arrowwood_dataset *>(arrowwood_open, path.c_str(), nullptr)) {}
  explicit Dataset(arrowwood_dataset *taken) : handle(taken, Free<arrowwood_dataset_free>{}) {}

  uint64_t rows() const { return make<uint64_t>(arrowwood_dataset_num_rows, get()); }
  size_t column(const std::string &name) const {
    return make<size_t>(arrowwood_dataset_column_index, get(), name.c_str());
  }
  Chunks chunks(const std::string &name) const { return {get(), column(name)}; }
  Dataset slice(uint64_t start, uint64_t rows) const {
    return Dataset(make<arrowwood_dataset *>(arrowwood_dataset_slice, get(), start, rows));
  }
  arrowwood_value reduce(const std::string &name, arrowwood_function function) const {
    return make<arrowwood_value>(arrowwood_dataset_reduce, get(), column(name), int32_t{function});
  }
  // The values live as long as the dataset.
  std::vector<arrowwood_value> row(uint64_t row) const {
    std::vector<arrowwood_value> cells(make<size_t>(arrowwood_dataset_num_columns, get()));
    call(arrowwood_dataset_cells, get(), row, cells.data(), cells.size());
    return cells;
  }
  const arrowwood_dataset *get() const { return handle.get(); }

 private:
  std::shared_ptr<arrowwood_dataset> handle;
};

// The writer of a table. Only commit() commits: close() returns how many rows it discards, the destructor tells stderr.
class Writer {
 public:
  Writer(const std::string &path, const std::string &types) {
    auto schema = make<ArrowSchema>(arrowwood_schema_parse, types.c_str());
    std::unique_ptr<ArrowSchema, void (*)(ArrowSchema *)> released(&schema, schema.release);
    handle.reset(make<arrowwood_writer *>(arrowwood_writer_open, path.c_str(), &schema, nullptr));
  }
  Writer(Writer &&) = default;
  ~Writer() { if (auto rows = uncommitted()) std::cerr << rows << " rows discarded: they were not committed\n"; }
  using Row = const std::vector<arrowwood_value> &;
  void append(Row row) { call(arrowwood_writer_append_row, handle.get(), row.data(), row.size()); }
  void commit(bool durable = false) { call(arrowwood_writer_commit, handle.get(), int32_t{durable}); }
  uint64_t uncommitted() const {
    arrowwood_writer_state at = ARROWWOOD_WRITER_STATE_INIT;
    return handle && !arrowwood_writer_progress(handle.get(), &at, nullptr) ? at.rows - at.committed_rows : 0;
  }
  uint64_t close() {
    auto rows = uncommitted();
    return call(arrowwood_writer_rollback, handle.get()), call(arrowwood_writer_close, handle.release()), rows;
  }

 private:
  std::unique_ptr<arrowwood_writer, Free<arrowwood_writer_free>> handle;
};

inline std::string_view text(const arrowwood_value &value) { return {value.as.text, value.length}; }

}  // namespace arrowwood
