/* Asserts sizes and offsets of the structs of the C API. The Rust side asserts the same numbers, so that neither can
 * change without the other; compiled as C11 and as C++17. */
#include <arrowwood.h>

#include <stddef.h>

#ifdef __cplusplus
#define ASSERT static_assert
#else
#define ASSERT _Static_assert
#endif
#define SIZE(type, size) ASSERT(sizeof(type) == (size), #type)
#define AT(type, field, offset) ASSERT(offsetof(type, field) == (offset), #type "." #field)

SIZE(arrowwood_error, 16);
AT(arrowwood_error, os_error, 4);
AT(arrowwood_error, message, 8);

SIZE(arrowwood_value, 48);
AT(arrowwood_value, unit, 4);
AT(arrowwood_value, length, 8);
AT(arrowwood_value, as, 16);
AT(arrowwood_value, as.timestamp.zone, 24);
AT(arrowwood_value, as.interval.days, 20);
AT(arrowwood_value, as.interval.nanoseconds, 24);

SIZE(arrowwood_open_options, 24);
AT(arrowwood_open_options, validate, 8);
AT(arrowwood_open_options, copy, 12);
AT(arrowwood_open_options, strict, 16);
AT(arrowwood_open_options, partial, 20);

SIZE(arrowwood_csv_options, 40);
AT(arrowwood_csv_options, schema, 8);
AT(arrowwood_csv_options, dictionary, 16);
AT(arrowwood_csv_options, dictionary_count, 24);
AT(arrowwood_csv_options, delimiter, 32);

SIZE(arrowwood_write_options, 24);
AT(arrowwood_write_options, format, 8);
AT(arrowwood_write_options, compression, 12);
AT(arrowwood_write_options, max_rows, 16);

SIZE(arrowwood_buffer, 16);
SIZE(arrowwood_chunk, 160);
AT(arrowwood_chunk, rows, 8);
AT(arrowwood_chunk, null_count, 16);
AT(arrowwood_chunk, validity, 24);
AT(arrowwood_chunk, values, 40);
AT(arrowwood_chunk, offsets, 56);
AT(arrowwood_chunk, sizes, 72);
AT(arrowwood_chunk, data, 88);
AT(arrowwood_chunk, validity_bit, 104);
AT(arrowwood_chunk, values_bit, 108);
AT(arrowwood_chunk, run_offset, 112);
AT(arrowwood_chunk, variadic, 120);
AT(arrowwood_chunk, variadic_count, 128);
AT(arrowwood_chunk, children, 136);
AT(arrowwood_chunk, child_count, 144);
AT(arrowwood_chunk, dictionary, 152);

SIZE(arrowwood_aggregate, 24);
AT(arrowwood_aggregate, column, 8);
AT(arrowwood_aggregate, function, 16);

SIZE(arrowwood_writer_options, 80);
AT(arrowwood_writer_options, sync, 8);
AT(arrowwood_writer_options, force, 12);
AT(arrowwood_writer_options, sync_interval_ms, 16);
AT(arrowwood_writer_options, segment_rows, 24);
AT(arrowwood_writer_options, dictionary, 32);
AT(arrowwood_writer_options, dictionary_count, 40);
AT(arrowwood_writer_options, sorted_by, 48);
AT(arrowwood_writer_options, index, 56);
AT(arrowwood_writer_options, index_count, 64);
AT(arrowwood_writer_options, late, 72);

SIZE(arrowwood_column, 48);
AT(arrowwood_column, values, 0);
AT(arrowwood_column, size, 8);
AT(arrowwood_column, offsets, 16);
AT(arrowwood_column, offset_count, 24);
AT(arrowwood_column, valid, 32);
AT(arrowwood_column, valid_count, 40);

SIZE(arrowwood_position, 16);
AT(arrowwood_position, value, 8);
SIZE(arrowwood_commit_options, 32);
AT(arrowwood_commit_options, positions, 8);
AT(arrowwood_commit_options, position_count, 16);
AT(arrowwood_commit_options, durable, 24);
SIZE(arrowwood_writer_state, 40);
AT(arrowwood_writer_state, rows, 8);
AT(arrowwood_writer_state, committed_rows, 16);
AT(arrowwood_writer_state, durable_rows, 24);
AT(arrowwood_writer_state, dropped_rows, 32);

SIZE(arrowwood_report, 56);
AT(arrowwood_report, rows, 8);
AT(arrowwood_report, damaged, 32);
AT(arrowwood_report, kept, 40);
AT(arrowwood_report, given_up, 48);

SIZE(arrowwood_stat, 88);
AT(arrowwood_stat, segments, 8);
AT(arrowwood_stat, first_row, 24);
AT(arrowwood_stat, end, 32);
AT(arrowwood_stat, durable_end, 40);
AT(arrowwood_stat, sequence, 48);
AT(arrowwood_stat, disk, 56);
AT(arrowwood_stat, apparent, 64);
AT(arrowwood_stat, segment_rows, 72);
AT(arrowwood_stat, writer, 80);
AT(arrowwood_stat, is_live, 84);

/* Arrow's structs, as its specification defines them. */
SIZE(struct ArrowSchema, 72);
SIZE(struct ArrowArray, 80);
SIZE(struct ArrowArrayStream, 40);

int main(void) { return arrowwood_abi_version() == ARROWWOOD_ABI_VERSION ? 0 : 1; }
