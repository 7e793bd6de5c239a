/* arrowwood.h: open Apache Arrow data of any size in place, and write Arrow files that grow.
 *
 * docs/c.md is an introduction. Conventions of all functions:
 *
 * Results. A function that returns int32_t returns 0 on success, or an error code (enum arrowwood_error_code). On
 *   failure it also fills *error, unless error is NULL, writes through no other pointer, and allocates nothing that the
 *   caller must free, unless its description says otherwise. "Errors:" lists the codes specific to a function. In
 *   addition, every function may return
 *     INVALID_ARGUMENT  a pointer is NULL that must not be, a handle is of another type, a number is out of range;
 *     INTERNAL          a bug in the library.
 *   and every function that reads files may return
 *     FILE_CHANGED      a mapped file was truncated or overwritten; open it again;
 *     IO                a system call failed; os_error is its errno.
 *
 * Handles. arrowwood_dataset and the other incomplete types are handles. A function with a TYPE ** parameter creates
 *   one; the function named TYPE_free (or _close, _finish) frees it. Freeing NULL does nothing. Using or freeing a
 *   handle after it was freed is undefined; the library detects most such mistakes, not all.
 *
 * Threads. Every function may be called from any thread. Datasets and predicates are immutable and may be used by any
 *   number of threads at once. Calls on one writer, builder or follower are serialised; a callback that calls the
 *   handle whose call it runs in gets BUSY, and frees nothing. No call on a handle may overlap with the call that frees
 *   it. Errors are stored in the caller's struct, never per thread.
 *
 * Text is NUL-terminated UTF-8; paths are NUL-terminated bytes. The library copies what it needs beyond the call.
 *   Strings returned through char ** are freed with arrowwood_string_free.
 *
 * Options begin with their size, so that later versions can append members. Initialise them with the macro of the same
 *   name (ARROWWOOD_OPEN_OPTIONS_INIT), or zero them and set .size to sizeof. 0 is the default of each member; a NULL
 *   pointer means all defaults. A member called reserved that is not 0 is refused with UNSUPPORTED. Structs that the
 *   library fills and that begin with their size are initialised likewise.
 *
 * Files must not be rewritten while they are open; growing them, or replacing them by a rename, is fine. Calls return
 *   FILE_CHANGED when they notice a change. Text of values, arrays and chunks point into the mapped file: if another
 *   process truncates it, reading them raises SIGBUS, as with any mapping. See arrowwood_copy. Passing them to a
 *   function of the library is safe: it returns FILE_CHANGED.
 *
 * Signals. Mapping the first file installs a SIGBUS handler that passes on all signals that do not concern files mapped
 *   by this library. See arrowwood_leave_sigbus_alone.
 */
#ifndef ARROWWOOD_H
#define ARROWWOOD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this ABI. Changing or removing a function or struct increments it; adding functions, or members at the
 * end of structs that begin with their size, does not. */
#define ARROWWOOD_ABI_VERSION 1

/* ---- Arrow's C data and stream interfaces, as their specification has them ---- */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

/* ---- errors ---- */

enum arrowwood_error_code {
  ARROWWOOD_ERROR_NONE = 0,
  ARROWWOOD_ERROR_NOT_FOUND = 1,         /* no such file, or no file matches */
  ARROWWOOD_ERROR_PERMISSION_DENIED = 2, /* the operating system denied access */
  ARROWWOOD_ERROR_INVALID_DATA = 3,      /* the bytes violate the Arrow format, or are not Arrow data */
  ARROWWOOD_ERROR_UNSUPPORTED = 4,       /* valid, but not supported by this version */
  ARROWWOOD_ERROR_SCHEMA_MISMATCH = 5,   /* two schemas that must agree differ */
  ARROWWOOD_ERROR_COLUMN_NOT_FOUND = 6,  /* no column of that name or number */
  ARROWWOOD_ERROR_ROW_OUT_OF_RANGE = 7,  /* no row, batch or item of that number */
  ARROWWOOD_ERROR_INVALID_ARGUMENT = 8,  /* an argument has an invalid value */
  ARROWWOOD_ERROR_CLOSED = 9,            /* a writer or builder is unusable after an earlier failure */
  ARROWWOOD_ERROR_BUSY = 10,             /* another process writes the table; something is still in use, such as a
                                            writer by the call whose callback asks for it */
  ARROWWOOD_ERROR_FILE_CHANGED = 11,     /* a mapped file was truncated or overwritten */
  ARROWWOOD_ERROR_COPY_NEEDED = 12,      /* a copy is needed, and the options forbid it */
  ARROWWOOD_ERROR_IO = 13,               /* any other failure of the operating system */
  ARROWWOOD_ERROR_INTERNAL = 14          /* a bug in the library; the message says where */
};

typedef struct arrowwood_error {
  int32_t code;     /* enum arrowwood_error_code */
  int32_t os_error; /* errno of the failed system call; 0 if there is none */
  char *message;    /* the operation and path, what was expected and found, and what to do; NUL-terminated UTF-8 */
} arrowwood_error;

#define ARROWWOOD_ERROR_INIT {0, 0, NULL}

/* On failure *error is overwritten without being read; on success it is left alone. Clear an error before reusing the
 * struct, or its message leaks. */

/* Frees the message and zeroes the struct. Does nothing for NULL or a zeroed struct. */
void arrowwood_error_clear(arrowwood_error *error);

/* Returns the name of an error code, such as "file changed". The string is static. */
const char *arrowwood_error_name(int32_t code);

/* Frees a string returned by this library. Does nothing for NULL. */
void arrowwood_string_free(char *string);

/* ---- the library ---- */

/* Returns the ABI version of the loaded library. Programs that load it at run time compare it with
 * ARROWWOOD_ABI_VERSION. */
uint32_t arrowwood_abi_version(void);

/* Returns the version of the library, such as "0.1.0". The string is static. */
const char *arrowwood_version(void);

/* Keeps the library from installing its SIGBUS handler, for processes whose own handler must not change. Reading a
 * page of a truncated file then ends the process instead of returning FILE_CHANGED. Call it before opening the first
 * file. Setting ARROWWOOD_SIGBUS=off in the environment has the same effect.
 * Errors: BUSY: a file was opened before, and the handler is installed. */
int32_t arrowwood_leave_sigbus_alone(arrowwood_error *error);

/* Copies length bytes from source to target, which must not overlap. Unlike memcpy, returns an error if source lies
 * in a mapped file (text of a value, an array, a chunk) that was truncated; the contents of target are unspecified
 * then.
 * Errors: FILE_CHANGED. */
int32_t arrowwood_copy(void *target, const void *source, size_t length, arrowwood_error *error);

/* Receives the progress of a call: the context passed with the callback, and the done and total rows, bytes or pieces.
 * Runs on the calling thread, during the call. It must return normally, without throwing or longjmp. It may call the
 * library, except with the handle whose call it runs in: a writer is BUSY, and no handle may be freed. */
typedef void (*arrowwood_progress)(void *context, uint64_t done, uint64_t total);

/* ---- values ---- */

enum arrowwood_value_kind {
  ARROWWOOD_KIND_NULL = 0,
  ARROWWOOD_KIND_BOOL = 1,       /* as.int64: 0 or 1 */
  ARROWWOOD_KIND_INT64 = 2,      /* as.int64: a signed integer of any width */
  ARROWWOOD_KIND_UINT64 = 3,     /* as.uint64: an unsigned integer of any width */
  ARROWWOOD_KIND_INT128 = 4,     /* as.words[0] and [1], two's complement, low word first: an exact sum. Sums returned
                                    by the library are sign-extended: as.int64 is the number if it fits. */
  ARROWWOOD_KIND_FLOAT32 = 5,    /* as.float64: a float of 16 or 32 bits */
  ARROWWOOD_KIND_FLOAT64 = 6,    /* as.float64 */
  ARROWWOOD_KIND_DECIMAL = 7,    /* as.words, 256-bit two's complement, low word first, times 10^-unit */
  ARROWWOOD_KIND_TEXT = 8,       /* as.text: length bytes of UTF-8, not NUL-terminated */
  ARROWWOOD_KIND_BYTES = 9,      /* as.bytes: length bytes */
  ARROWWOOD_KIND_UUID = 10,      /* as.bytes: 16 bytes */
  ARROWWOOD_KIND_DATE = 11,      /* as.int64: days since 1970-01-01 */
  ARROWWOOD_KIND_TIME = 12,      /* as.int64: units since midnight */
  ARROWWOOD_KIND_TIMESTAMP = 13, /* as.timestamp.count: units since 1970-01-01 00:00:00, in UTC if there is a zone;
                                    as.timestamp.zone: length bytes, not NUL-terminated; NULL without a zone.
                                    As an argument, one with a zone, whatever its name, is for columns with any zone;
                                    one without for columns without a zone, or in UTC */
  ARROWWOOD_KIND_DURATION = 14,  /* as.int64: units */
  ARROWWOOD_KIND_INTERVAL = 15,  /* as.interval; unit is 0 for months, 1 for days and milliseconds, 2 for all three */
  ARROWWOOD_KIND_LIST = 16,      /* length items: see arrowwood_dataset_value */
  ARROWWOOD_KIND_MAP = 17,       /* length entries, each a struct of key and value */
  ARROWWOOD_KIND_STRUCT = 18,    /* length members */
  ARROWWOOD_KIND_UNION = 19      /* one value; as.text: the name of its member, length bytes */
};

enum arrowwood_unit {
  ARROWWOOD_UNIT_SECOND = 0,
  ARROWWOOD_UNIT_MILLISECOND = 1,
  ARROWWOOD_UNIT_MICROSECOND = 2,
  ARROWWOOD_UNIT_NANOSECOND = 3
};

/* A value: a cell, a result, or an argument to append or compare.
 *
 * Pointers in values returned by the library point into the dataset and are valid until that dataset handle is freed.
 * Pointers in values passed to the library need only be valid during the call.
 * Nested values (list, map, struct, union) are only returned; append them as Arrow data. */
typedef struct arrowwood_value {
  int32_t kind;    /* enum arrowwood_value_kind */
  int32_t unit;    /* enum arrowwood_unit of times; the scale of a decimal; else 0 */
  uint64_t length; /* bytes, items or members */
  union {
    int64_t int64;
    uint64_t uint64;
    double float64;
    const char *text;
    const uint8_t *bytes;
    uint64_t words[4];
    struct {
      int64_t count;
      const char *zone;
    } timestamp;
    struct {
      int32_t months;
      int32_t days;
      int64_t nanoseconds;
    } interval;
  } as;
} arrowwood_value;

/* Converts a number of any kind to the nearest double.
 * Errors: INVALID_ARGUMENT: the value is not a number. */
int32_t arrowwood_value_double(const arrowwood_value *value, double *number, arrowwood_error *error);

/* Formats a value as arrowwood_dataset_display does: "2010-02-01 00:00:00".
 * Errors: INVALID_ARGUMENT: the value is nested. */
int32_t arrowwood_value_text(const arrowwood_value *value, char **text, arrowwood_error *error);

/* ---- opening ---- */

/* An immutable table over one or many record batches, in place. */
typedef struct arrowwood_dataset arrowwood_dataset;

enum arrowwood_validate {
  ARROWWOOD_VALIDATE_LAZY = 0, /* check offsets, text and keys of a column when it is first used as a whole */
  ARROWWOOD_VALIDATE_FULL = 1  /* check all values when opening */
};

typedef struct arrowwood_open_options {
  uint64_t size;
  int32_t validate; /* enum arrowwood_validate */
  int32_t copy;     /* 1: read everything into memory first; safe even if other processes rewrite the file */
  int32_t strict;   /* 1: fail with COPY_NEEDED, naming the buffer, instead of copying */
  int32_t partial;  /* 1: accept a truncated file or stream, up to its last whole batch */
} arrowwood_open_options;

#define ARROWWOOD_OPEN_OPTIONS_INIT {sizeof(arrowwood_open_options), 0, 0, 0, 0}

/* Opens an Arrow IPC file or stream, a table's directory, a directory of *.arrow files, or all files that match a glob.
 * Reads metadata only.
 * Errors: NOT_FOUND, PERMISSION_DENIED; INVALID_DATA, saying what the file looks like instead; SCHEMA_MISMATCH between
 * files; UNSUPPORTED; COPY_NEEDED. */
int32_t arrowwood_open(const char *path, const arrowwood_open_options *options, arrowwood_dataset **dataset,
                       arrowwood_error *error);

/* Opens several paths with equal schemas as one dataset.
 * Errors: as arrowwood_open; INVALID_ARGUMENT: path_count is 0. */
int32_t arrowwood_open_paths(const char *const *paths, size_t path_count, const arrowwood_open_options *options,
                             arrowwood_dataset **dataset, arrowwood_error *error);

/* Opens an IPC file or stream in memory, in place. On success the library calls release(context) exactly once, from
 * any thread, when the last dataset, array or chunk table that uses the bytes is freed (with options.copy: before
 * returning); the bytes must not change or move until then. release may be NULL. On failure the bytes remain the
 * caller's and release is not called.
 * Errors: as arrowwood_open. */
int32_t arrowwood_open_memory(const void *bytes, size_t length, void (*release)(void *), void *context,
                              const arrowwood_open_options *options, arrowwood_dataset **dataset,
                              arrowwood_error *error);

/* Imports all batches of a stream without copying. The stream is moved: stream->release is NULL afterwards, even on
 * failure, except for INVALID_ARGUMENT errors about the arguments themselves. The producer vouches for the values.
 * Errors: INVALID_ARGUMENT: the stream failed (the message is its own), or its arrays violate the interface. */
int32_t arrowwood_import_stream(struct ArrowArrayStream *stream, arrowwood_dataset **dataset, arrowwood_error *error);

/* Imports one array without copying: a struct's members become columns, any other array one column named "values". The
 * array is moved as a stream is; the schema remains the caller's.
 * Errors: as arrowwood_import_stream; INVALID_ARGUMENT: a struct with null rows. */
int32_t arrowwood_import_array(struct ArrowArray *array, const struct ArrowSchema *schema, arrowwood_dataset **dataset,
                               arrowwood_error *error);

typedef struct arrowwood_csv_options {
  uint64_t size;
  const struct ArrowSchema *schema; /* the columns to read, matched by name; NULL: all, with inferred types */
  const char *const *dictionary;    /* names of text columns to dictionary-encode */
  size_t dictionary_count;
  int32_t delimiter; /* an ASCII character; 0: comma */
  int32_t reserved;  /* 0 */
} arrowwood_csv_options;

#define ARROWWOOD_CSV_OPTIONS_INIT {sizeof(arrowwood_csv_options), NULL, NULL, 0, 0, 0}

/* Reads a CSV file with a header line into memory.
 * Errors: NOT_FOUND, PERMISSION_DENIED; INVALID_DATA, naming the line; COLUMN_NOT_FOUND. */
int32_t arrowwood_read_csv(const char *path, const arrowwood_csv_options *options, arrowwood_dataset **dataset,
                           arrowwood_error *error);

enum arrowwood_format {
  ARROWWOOD_FORMAT_FILE = 0,  /* with a footer, for random access */
  ARROWWOOD_FORMAT_STREAM = 1 /* read front to back */
};

enum arrowwood_compression {
  ARROWWOOD_COMPRESSION_NONE = 0, /* can be opened in place */
  ARROWWOOD_COMPRESSION_LZ4 = 1,
  ARROWWOOD_COMPRESSION_ZSTD = 2
};

typedef struct arrowwood_write_options {
  uint64_t size;
  int32_t format;      /* enum arrowwood_format */
  int32_t compression; /* enum arrowwood_compression */
  uint64_t max_rows;   /* maximum rows of a record batch; 0: keep the batches */
} arrowwood_write_options;

#define ARROWWOOD_WRITE_OPTIONS_INIT {sizeof(arrowwood_write_options), 0, 0, 0}

/* Writes an Arrow IPC file or stream, replacing an existing file atomically.
 * Errors: INVALID_DATA: a value is damaged; PERMISSION_DENIED, NOT_FOUND: of the directory. */
int32_t arrowwood_write(const arrowwood_dataset *dataset, const char *path, const arrowwood_write_options *options,
                        arrowwood_error *error);

/* Parses a schema such as "ts: timestamp[us] not null, symbol: category, price: float64". Types are named as
 * arrowwood_dataset_display names them; category means dictionary<int32, utf8>. The caller releases the schema.
 * Errors: INVALID_ARGUMENT, naming the mistake and its position. */
int32_t arrowwood_schema_parse(const char *text, struct ArrowSchema *schema, arrowwood_error *error);

/* ---- datasets ---- */

/* Frees a dataset. Arrays, streams, chunk tables and datasets made from it remain valid. */
void arrowwood_dataset_free(arrowwood_dataset *dataset);

/* Creates another handle of the same rows. Costs one allocation. */
int32_t arrowwood_dataset_clone(const arrowwood_dataset *dataset, arrowwood_dataset **clone, arrowwood_error *error);

/* Returns the number of rows. The first call walks the messages of a stream.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_num_rows(const arrowwood_dataset *dataset, uint64_t *rows, arrowwood_error *error);

/* Returns the number of columns. */
int32_t arrowwood_dataset_num_columns(const arrowwood_dataset *dataset, size_t *columns, arrowwood_error *error);

/* Returns the number of record batches.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_num_batches(const arrowwood_dataset *dataset, size_t *batches, arrowwood_error *error);

/* Exports names and types of the columns as a struct type. The caller releases the schema, which does not depend on the
 * dataset.
 * Errors: UNSUPPORTED: the C data interface lacks a type. */
int32_t arrowwood_dataset_schema(const arrowwood_dataset *dataset, struct ArrowSchema *schema, arrowwood_error *error);

/* Returns the index of the column named name, from 0.
 * Errors: COLUMN_NOT_FOUND, naming the columns; INVALID_ARGUMENT: several columns have the name. */
int32_t arrowwood_dataset_column_index(const arrowwood_dataset *dataset, const char *name, size_t *column,
                                       arrowwood_error *error);

/* Returns the name of a column.
 * Errors: COLUMN_NOT_FOUND. */
int32_t arrowwood_dataset_column_name(const arrowwood_dataset *dataset, size_t column, char **name,
                                      arrowwood_error *error);

/* Returns the type of a column as text, which arrowwood_schema_parse reads: "float64", "timestamp[us, UTC]",
 * "dictionary<int32, utf8>".
 * Errors: COLUMN_NOT_FOUND. */
int32_t arrowwood_dataset_column_type(const arrowwood_dataset *dataset, size_t column, char **name,
                                      arrowwood_error *error);

/* Returns the number of the first row in its table; rows keep their numbers when earlier ones are dropped. */
int32_t arrowwood_dataset_first_row(const arrowwood_dataset *dataset, uint64_t *row, arrowwood_error *error);

/* Returns the index of the column that the table is sorted by; -1 if there is none. */
int32_t arrowwood_dataset_sorted_by(const arrowwood_dataset *dataset, int64_t *column, arrowwood_error *error);

/* Returns the size of the rows in their buffers in bytes, without dictionaries.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_bytes(const arrowwood_dataset *dataset, uint64_t *bytes, arrowwood_error *error);

/* Returns the number of bytes mapped from files, of bytes copied (decompressed, byte-swapped, or dictionaries built
 * from deltas), and of mapped bytes in physical memory. Each pointer may be NULL; resident queries the system about
 * every page. */
int32_t arrowwood_dataset_footprint(const arrowwood_dataset *dataset, uint64_t *mapped, uint64_t *copied,
                                    uint64_t *resident, arrowwood_error *error);

/* Selects columns by index, in the given order.
 * Errors: COLUMN_NOT_FOUND. */
int32_t arrowwood_dataset_select(const arrowwood_dataset *dataset, const size_t *columns, size_t count,
                                 arrowwood_dataset **selected, arrowwood_error *error);

/* Selects columns by name, in the given order.
 * Errors: COLUMN_NOT_FOUND; INVALID_ARGUMENT: several columns have a name. */
int32_t arrowwood_dataset_select_names(const arrowwood_dataset *dataset, const char *const *names, size_t count,
                                       arrowwood_dataset **selected, arrowwood_error *error);

/* Selects rows start to start + rows, or as many of them as exist.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_slice(const arrowwood_dataset *dataset, uint64_t start, uint64_t rows,
                                arrowwood_dataset **slice, arrowwood_error *error);

/* Concatenates datasets without copying.
 * Errors: SCHEMA_MISMATCH, naming the first difference; INVALID_ARGUMENT: count is 0. */
int32_t arrowwood_dataset_concat(const arrowwood_dataset *const *datasets, size_t count, arrowwood_dataset **all,
                                 arrowwood_error *error);

/* Creates a dataset that includes the rows committed since; the same rows if there are none, or if the data can't grow.
 * The given dataset does not change. */
int32_t arrowwood_dataset_refresh(const arrowwood_dataset *dataset, arrowwood_dataset **newer, arrowwood_error *error);

/* Reads all cells of a row into cells[0] to cells[count - 1]; count must be the number of columns.
 * Errors: ROW_OUT_OF_RANGE; INVALID_DATA: a value is damaged. On failure some cells may be written. */
int32_t arrowwood_dataset_cells(const arrowwood_dataset *dataset, uint64_t row, arrowwood_value *cells, size_t count,
                                arrowwood_error *error);

/* Reads one cell, or a value nested in it. path[0] is the column; each further index descends into the value: the
 * item of a list, the entry of a map (then 0 for its key, 1 for its value), the member of a struct, or 0 for a
 * union's value.
 * Errors: ROW_OUT_OF_RANGE: also for an item; COLUMN_NOT_FOUND: also for a member; INVALID_DATA. */
int32_t arrowwood_dataset_value(const arrowwood_dataset *dataset, uint64_t row, const uint64_t *path, size_t depth,
                                arrowwood_value *value, arrowwood_error *error);

/* Formats the dataset as a table: its first and last rows, at most rows of them, in lines of at most width
 * characters. 0 means 10 rows and 100 characters. */
int32_t arrowwood_dataset_display(const arrowwood_dataset *dataset, uint64_t rows, uint64_t width, char **text,
                                  arrowwood_error *error);

/* Lists the IPC messages of the files in order, a row for each: kind, offset, metadata_offset, metadata_length,
 * body_offset, body_length (bytes of the file), version, rows, dictionary, is_delta, compression, and the lists
 *   fields: depth, name, type, nullable, dictionary, keys, metadata; depth first,
 *   nodes: field, length, null_count,
 *   buffers: field, name, offset (from body_offset), length, in bytes, and
 *   metadata: key, value.
 * Errors: UNSUPPORTED: the rows are in memory; INVALID_DATA. */
int32_t arrowwood_dataset_messages(const arrowwood_dataset *dataset, arrowwood_dataset **messages,
                                   arrowwood_error *error);

/* Checks all values. progress may be NULL.
 * Errors: INVALID_DATA, naming path, batch, column and row. */
int32_t arrowwood_dataset_validate(const arrowwood_dataset *dataset, arrowwood_progress progress, void *context,
                                   arrowwood_error *error);

/* ---- columns as memory ---- */

enum arrowwood_flags {
  /* Check the structure only: each buffer is as long as the rows and the type require, but its contents are unchecked.
   * Offsets, views, keys, type ids and run ends may point anywhere, text may not be UTF-8, null counts are as declared.
   * Costs nothing per row. BY PASSING THIS FLAG THE CALLER PROMISES to bound each access that depends on such a value.
   * Importers of most Arrow libraries don't, and must not be given such arrays. */
  ARROWWOOD_STRUCTURE_ONLY = 1,
  /* Copy buffers that are not aligned for their type. Without this flag buffers are where the file has them: aligned in
   * files of Arrow's own libraries, not necessarily in others. */
  ARROWWOOD_ALIGNED = 2
};

/* Exports all batches as a stream of structs. Buffers are shared with the mapping; the values of a batch are
 * checked by get_next, unless flags say otherwise. The caller releases the stream and its arrays, which don't
 * depend on the dataset handle.
 * Errors: INVALID_DATA, UNSUPPORTED; get_next and get_last_error report errors of a batch. */
int32_t arrowwood_dataset_stream(const arrowwood_dataset *dataset, uint32_t flags, struct ArrowArrayStream *stream,
                                 arrowwood_error *error);

/* Exports all batches of a column as a stream of arrays of its own type; as arrowwood_dataset_stream.
 * Errors: COLUMN_NOT_FOUND; as arrowwood_dataset_stream. */
int32_t arrowwood_dataset_column_stream(const arrowwood_dataset *dataset, size_t column, uint32_t flags,
                                        struct ArrowArrayStream *stream, arrowwood_error *error);

/* Exports batch number batch, from 0, as a struct of the type that arrowwood_dataset_schema exports; as
 * arrowwood_dataset_stream, which is faster for all batches.
 * Errors: ROW_OUT_OF_RANGE: there is no such batch; INVALID_DATA. */
int32_t arrowwood_dataset_batch(const arrowwood_dataset *dataset, size_t batch, uint32_t flags,
                                struct ArrowArray *array, arrowwood_error *error);

/* size bytes of memory at data; NULL if there is no such buffer. */
typedef struct arrowwood_buffer {
  const void *data;
  uint64_t size;
} arrowwood_buffer;

/* The buffers of one chunk: a column's rows in one batch.
 *
 * All buffers begin at the chunk's first row: value i of a column of doubles is ((const double *)values.data)[i].
 * Bitmaps begin at bit validity_bit or values_bit of their first byte; bits are numbered from the least significant.
 * The type determines the buffers, as in the Arrow Columnar Format:
 *   numbers, times, decimals, fixed-size binary: values
 *   bool: values, a bitmap
 *   utf8, binary (large or not): offsets (rows + 1, of 32 or 64 bits; may be empty if rows is 0) into data
 *   utf8 view, binary view: values (16 bytes each), variadic
 *   list, large list, map: offsets (rows + 1) into children[0]
 *   list view: offsets and sizes (one per row) into children[0]
 *   fixed-size list: children[0], from the first item of the first row on
 *   struct: children, with as many rows
 *   sparse union: values (type ids, of 8 bits); children, with as many rows
 *   dense union: values (type ids), offsets (one per row, of 32 bits) into children
 *   dictionary: values (keys), dictionary
 *   run-end encoded: children[0] (run ends), children[1] (values); row i is row i + run_offset of the runs. */
typedef struct arrowwood_chunk {
  uint64_t first_row;        /* the index of its first row in the column; 0 for children and dictionaries */
  uint64_t rows;             /* the number of rows */
  uint64_t null_count;       /* nulls by the validity bitmap */
  arrowwood_buffer validity; /* a bitmap, 1 for valid; NULL if all rows are valid */
  arrowwood_buffer values;
  arrowwood_buffer offsets;
  arrowwood_buffer sizes;
  arrowwood_buffer data;
  uint32_t validity_bit;
  uint32_t values_bit;
  uint64_t run_offset;
  const arrowwood_buffer *variadic;
  uint64_t variadic_count;
  const struct arrowwood_chunk *children;
  uint64_t child_count;
  const struct arrowwood_chunk *dictionary;
} arrowwood_chunk;

/* Owns a chunk table and the memory it points to. */
typedef struct arrowwood_chunks arrowwood_chunks;

/* Returns the chunk table of a column: *chunks points to *count chunks, one per batch, valid until *owner is freed,
 * even if the dataset is freed before. Values are checked as by arrowwood_dataset_stream.
 * Errors: COLUMN_NOT_FOUND, INVALID_DATA. */
int32_t arrowwood_dataset_chunks(const arrowwood_dataset *dataset, size_t column, uint32_t flags,
                                 const arrowwood_chunk **chunks, size_t *count, arrowwood_chunks **owner,
                                 arrowwood_error *error);

/* Frees a chunk table. */
void arrowwood_chunks_free(arrowwood_chunks *owner);

/* Returns whether row `row` of a chunk is valid by its bitmap; row must be less than chunk->rows. */
static inline int arrowwood_chunk_is_valid(const arrowwood_chunk *chunk, uint64_t row) {
  const uint64_t bit = row + chunk->validity_bit;
  return chunk->validity.data == NULL || (((const uint8_t *)chunk->validity.data)[bit / 8] >> (bit % 8) & 1) != 0;
}

/* ---- computation ---- */

enum arrowwood_function {
  ARROWWOOD_SUM = 1,        /* INT128 of integers and booleans, FLOAT64 of floats, DECIMAL, DURATION; 0 of no values */
  ARROWWOOD_MEAN = 2,       /* FLOAT64; null of no values */
  ARROWWOOD_MIN = 3,        /* of the column's kind; null of no values; NaN only if there is nothing else */
  ARROWWOOD_MAX = 4,        /* likewise */
  ARROWWOOD_COUNT = 5,      /* UINT64: the number of non-null values */
  ARROWWOOD_VAR = 6,        /* FLOAT64: the sample variance (divided by n - 1); null of fewer than two values */
  ARROWWOOD_STD = 7,        /* FLOAT64: its square root */
  ARROWWOOD_NULL_COUNT = 8, /* UINT64; not of groups */
  ARROWWOOD_N_UNIQUE = 9,   /* UINT64: the number of distinct values; null is one */
  ARROWWOOD_ANY = 10,       /* BOOL: whether any value of a column of booleans is true; not of groups */
  ARROWWOOD_ALL = 11,       /* BOOL: whether no value is false; not of groups */
  ARROWWOOD_MEDIAN = 12     /* FLOAT64: the middle value, or the mean of the two middle ones; null of no values */
};

/* Reduces a column to one value, on all cores; nulls are ignored. The result does not depend on the number of
 * threads or batches. Text in *value is valid until the dataset is freed.
 * Errors: COLUMN_NOT_FOUND; UNSUPPORTED: the type has no such function; INVALID_ARGUMENT: a sum of decimals or
 * durations overflows; INVALID_DATA. */
int32_t arrowwood_dataset_reduce(const arrowwood_dataset *dataset, size_t column, int32_t function,
                                 arrowwood_value *value, arrowwood_error *error);

/* Returns the exact quantile share (0 to 1) of a column as FLOAT64, interpolated linearly; null if all values are
 * null or NaN.
 * Errors: as arrowwood_dataset_reduce. */
int32_t arrowwood_dataset_quantile(const arrowwood_dataset *dataset, size_t column, double share,
                                   arrowwood_value *value, arrowwood_error *error);

/* Returns the quantile of a fixed sample of 1,048,576 rows. The cost does not depend on the size of the column.
 * Errors: as arrowwood_dataset_reduce. */
int32_t arrowwood_dataset_approx_quantile(const arrowwood_dataset *dataset, size_t column, double share,
                                          arrowwood_value *value, arrowwood_error *error);

/* Copies rows by number, in the given order; negative numbers count from the end.
 * Errors: ROW_OUT_OF_RANGE, naming the first such number. */
int32_t arrowwood_dataset_take(const arrowwood_dataset *dataset, const int64_t *rows, size_t count,
                               arrowwood_dataset **taken, arrowwood_error *error);

/* Copies distinct random rows, in the order drawn. The same seed gives the same sample.
 * Errors: INVALID_ARGUMENT: there are fewer rows. */
int32_t arrowwood_dataset_sample(const arrowwood_dataset *dataset, uint64_t rows, uint64_t seed,
                                 arrowwood_dataset **sample, arrowwood_error *error);

/* Shuffles all rows: creates a view, which copies nothing until columns are used as a whole. The same seed gives
 * the same order. */
int32_t arrowwood_dataset_shuffle(const arrowwood_dataset *dataset, uint64_t seed, arrowwood_dataset **shuffled,
                                  arrowwood_error *error);

/* Selects the rows whose value in the column that the table is sorted by is between low and high, both included, by
 * binary search. Integers also stand for times in the column's unit.
 * Errors: INVALID_ARGUMENT: the dataset is not of one sorted table, or a value is of another type. */
int32_t arrowwood_dataset_between(const arrowwood_dataset *dataset, const arrowwood_value *low,
                                  const arrowwood_value *high, arrowwood_dataset **rows, arrowwood_error *error);

/* Counts the distinct values of a column, most frequent first, in columns of its name and "count".
 * Errors: COLUMN_NOT_FOUND; UNSUPPORTED: the type is nested. */
int32_t arrowwood_dataset_value_counts(const arrowwood_dataset *dataset, size_t column, arrowwood_dataset **counts,
                                       arrowwood_error *error);

/* Describes each column: rows for count, null_count, mean, std, min, 25%, 50%, 75% and max. */
int32_t arrowwood_dataset_describe(const arrowwood_dataset *dataset, arrowwood_dataset **description,
                                   arrowwood_error *error);

/* Copies all rows into one record batch in memory, on all cores.
 * Errors: INVALID_DATA; UNSUPPORTED: the dictionaries of the batches can't be unified. */
int32_t arrowwood_dataset_collect(const arrowwood_dataset *dataset, arrowwood_dataset **collected,
                                  arrowwood_error *error);

/* A condition on rows. A comparison with null is neither true nor false, and so is its negation. NaN is not equal to
 * anything, nor less, nor greater. Numbers compare by value, times across units; integers also stand for times in the
 * column's unit. */
typedef struct arrowwood_predicate arrowwood_predicate;

enum arrowwood_operator {
  ARROWWOOD_EQ = 1,
  ARROWWOOD_NE = 2,
  ARROWWOOD_LT = 3,
  ARROWWOOD_LE = 4,
  ARROWWOOD_GT = 5,
  ARROWWOOD_GE = 6
};

/* Compares a column with a value. Whether the column exists is checked when the predicate is applied. */
int32_t arrowwood_predicate_compare(const char *column, int32_t operator_code, const arrowwood_value *value,
                                    arrowwood_predicate **predicate, arrowwood_error *error);

/* Tests whether a column equals one of several values. */
int32_t arrowwood_predicate_in(const char *column, const arrowwood_value *values, size_t count,
                               arrowwood_predicate **predicate, arrowwood_error *error);

/* Tests whether a column is null. */
int32_t arrowwood_predicate_null(const char *column, arrowwood_predicate **predicate, arrowwood_error *error);

/* Combine predicates; a and b remain the caller's.
 * Errors: INVALID_ARGUMENT: predicates are nested more than 500 deep. */
int32_t arrowwood_predicate_and(const arrowwood_predicate *a, const arrowwood_predicate *b,
                                arrowwood_predicate **predicate, arrowwood_error *error);
int32_t arrowwood_predicate_or(const arrowwood_predicate *a, const arrowwood_predicate *b,
                               arrowwood_predicate **predicate, arrowwood_error *error);
int32_t arrowwood_predicate_not(const arrowwood_predicate *a, arrowwood_predicate **predicate, arrowwood_error *error);

/* Formats a predicate: "(price > 100) & (symbol == \"IBM\")". */
int32_t arrowwood_predicate_text(const arrowwood_predicate *predicate, char **text, arrowwood_error *error);

/* Frees a predicate. */
void arrowwood_predicate_free(arrowwood_predicate *predicate);

/* Copies the rows for which predicate is true, in order. If it bounds the column that the table is sorted by, reads
 * only the rows within these bounds.
 * Errors: COLUMN_NOT_FOUND; INVALID_ARGUMENT: a column can't be compared with a value of that kind; UNSUPPORTED: a
 * column can't be compared at all; INVALID_DATA. */
int32_t arrowwood_dataset_filter(const arrowwood_dataset *dataset, const arrowwood_predicate *predicate,
                                 arrowwood_dataset **found, arrowwood_error *error);

/* A column of a result. */
typedef struct arrowwood_aggregate {
  const char *name;   /* its name */
  const char *column; /* the column to aggregate; NULL with ARROWWOOD_COUNT counts rows */
  int32_t function;   /* enum arrowwood_function, except functions marked "not of groups" */
  int32_t reserved;   /* 0 */
} arrowwood_aggregate;

/* Aggregates groups of rows with equal values in the columns by, in one pass. The result has a row for each group,
 * in order of first appearance: the columns by, then columns. All rows are one group if by_count is 0. predicate
 * may be NULL.
 * Errors: COLUMN_NOT_FOUND; UNSUPPORTED: a type can't be grouped, or has no such function; INVALID_ARGUMENT: a sum
 * overflows, or two columns would have one name; INVALID_DATA. */
int32_t arrowwood_dataset_aggregate(const arrowwood_dataset *dataset, const char *const *by, size_t by_count,
                                    const arrowwood_predicate *predicate, const arrowwood_aggregate *columns,
                                    size_t column_count, arrowwood_dataset **groups, arrowwood_error *error);

/* ---- tables that grow ---- */

/* The single writer of a growing table. Appended rows become visible to readers when they are committed, all at
 * once. */
typedef struct arrowwood_writer arrowwood_writer;

enum arrowwood_sync {
  ARROWWOOD_SYNC_INTERVAL = 0, /* every sync_interval_ms */
  ARROWWOOD_SYNC_NEVER = 1,    /* when arrowwood_writer_sync or arrowwood_writer_close is called */
  ARROWWOOD_SYNC_COMMIT = 2    /* with every commit */
};

/* The treatment of late rows: rows less than an earlier row in the column sorted_by. */
enum arrowwood_late {
  ARROWWOOD_LATE_AS_CREATED = 0, /* as the table was created; refused by a new one */
  ARROWWOOD_LATE_REFUSE = 1,     /* they are an error, and the rows are in order */
  ARROWWOOD_LATE_ACCEPT = 2      /* they are kept in order of arrival; the rows are unordered, and found by an index */
};

typedef struct arrowwood_writer_options {
  uint64_t size;
  int32_t sync;                  /* when commits are synced to disk: enum arrowwood_sync */
  int32_t force;                 /* 1: also write to network file systems, whose mappings are not coherent */
  uint64_t sync_interval_ms;     /* 0: 1000 */
  uint64_t segment_rows;         /* maximum rows of a segment; 0: 4,194,304, or as the table was created */
  const char *const *dictionary; /* names of text columns to store as dictionary<int32, utf8> */
  size_t dictionary_count;
  const char *sorted_by;    /* a column whose values never decrease; NULL: none, or as the table was created */
  const char *const *index; /* columns to index: conditions on them read only blocks that may match */
  size_t index_count;       /* 0: as the table was created; a different choice applies from the next segment on */
  int32_t late;             /* the treatment of late rows: enum arrowwood_late */
  int32_t reserved;         /* 0 */
} arrowwood_writer_options;

#define ARROWWOOD_WRITER_OPTIONS_INIT {sizeof(arrowwood_writer_options), 0, 0, 0, 0, NULL, 0, NULL, NULL, 0, 0, 0}

/* Opens the table in the directory path for writing, or creates it. schema is required to create a table, and
 * must match the schema of an existing one; NULL opens an existing table as it is. The schema remains the caller's.
 * Errors: BUSY: another process writes the table, and the message names it; SCHEMA_MISMATCH, naming the first
 * difference; NOT_FOUND: there is neither a table nor a schema; UNSUPPORTED: a type can't grow, or a network file
 * system. */
int32_t arrowwood_writer_open(const char *path, const struct ArrowSchema *schema,
                              const arrowwood_writer_options *options, arrowwood_writer **writer,
                              arrowwood_error *error);

/* Exports names and types of the columns. The caller releases the schema. */
int32_t arrowwood_writer_schema(arrowwood_writer *writer, struct ArrowSchema *schema, arrowwood_error *error);

/* Appends the rows of a struct array, whose members are matched by name. The array is moved: array->release is NULL
 * afterwards, even on failure, except for INVALID_ARGUMENT errors about the arguments themselves. The schema
 * remains the caller's.
 * Errors: SCHEMA_MISMATCH, COLUMN_NOT_FOUND; INVALID_ARGUMENT: a null in a column without nulls, a value out of
 * range, or a row out of order, naming column and row; CLOSED. On failure nothing is appended. */
int32_t arrowwood_writer_append(arrowwood_writer *writer, struct ArrowArray *array, const struct ArrowSchema *schema,
                                arrowwood_error *error);

/* Appends all rows of a stream, or none. The stream is moved like an array.
 * Errors: as arrowwood_writer_append; INVALID_ARGUMENT: the stream failed. */
int32_t arrowwood_writer_append_stream(arrowwood_writer *writer, struct ArrowArrayStream *stream,
                                       arrowwood_error *error);

/* Appends all rows of a dataset, or none.
 * Errors: as arrowwood_writer_append; INVALID_DATA: a value is damaged. */
int32_t arrowwood_writer_append_dataset(arrowwood_writer *writer, const arrowwood_dataset *dataset,
                                        arrowwood_error *error);

/* Appends one row: a value for each column, in the table's order. Integers also stand for dates, times and timestamps
 * in the column's unit, and for floats and decimals that represent them exactly. Tables with columns of lists or
 * structs take no single rows: append them as Arrow data.
 * Errors: as arrowwood_writer_append. */
int32_t arrowwood_writer_append_row(arrowwood_writer *writer, const arrowwood_value *values, size_t count,
                                    arrowwood_error *error);

/* The values of a column in C arrays. */
typedef struct arrowwood_column {
  const void *values;     /* the values of all rows in order, or the bytes of all texts */
  size_t size;            /* the size of values in bytes */
  const int64_t *offsets; /* of text and bytes: text i is bytes offsets[i] to offsets[i + 1] of values; else NULL */
  size_t offset_count;    /* the number of rows and one, or 0 */
  const uint8_t *valid;   /* 0 for each row that is null, else 1; NULL if none is */
  size_t valid_count;     /* the number of rows, or 0 */
} arrowwood_column;

#define ARROWWOOD_COLUMN_INIT {NULL, 0, NULL, 0, NULL, 0}

/* Appends `rows` rows of columns, in the table's order, or none. A value is an int8_t to uint64_t, a
 * float, a double, two bytes for float16, a bool of one byte; an int32_t or int64_t for dates, times, timestamps,
 * durations and intervals of months, in the column's unit; an integer of the column's width for decimals; the bytes of
 * fixed-size binary; other intervals as in the Arrow Columnar Format. Values of the null type have no bytes. A column
 * of a dictionary takes values as they are in its dictionary. The value of a null row may be anything. All is copied,
 * and remains the caller's. Lists, structs, maps and unions are appended as Arrow data.
 * Errors: as arrowwood_writer_append; INVALID_ARGUMENT: there are other columns than the table's, or more or
 * fewer values than rows, offsets are not in order, or text is not UTF-8; UNSUPPORTED: a column is nested;
 * FILE_CHANGED: the memory belongs to a mapped file that was truncated. */
int32_t arrowwood_writer_append_columns(arrowwood_writer *writer, uint64_t rows, const arrowwood_column *columns,
                                        size_t count, arrowwood_error *error);

/* Makes all appended rows visible to readers, atomically. If durable is 1, also syncs them to disk.
 * Errors: IO: no row became visible, or the sync failed; CLOSED. */
int32_t arrowwood_writer_commit(arrowwood_writer *writer, int32_t durable, arrowwood_error *error);

/* A named position: the progress of a producer in its source. */
typedef struct arrowwood_position {
  const char *name; /* not empty, at most 255 bytes, no control characters */
  int64_t value;
} arrowwood_position;

typedef struct arrowwood_commit_options {
  uint64_t size;
  const arrowwood_position *positions; /* positions that change with this commit; the others keep their values */
  size_t position_count;
  int32_t durable;  /* 1: also sync to disk; of several threads that commit durably, one syncs for all of them */
  int32_t reserved; /* 0 */
} arrowwood_commit_options;

#define ARROWWOOD_COMMIT_OPTIONS_INIT {sizeof(arrowwood_commit_options), NULL, 0, 0, 0}

/* Commits as arrowwood_writer_commit, with named positions that are part of the commit: visible with its rows, durable
 * with them, and the same after a crash. A producer that commits its progress and continues from there neither loses
 * nor repeats a row. There may be no new rows.
 * Errors: as arrowwood_writer_commit; INVALID_ARGUMENT: a name is invalid, or the table would have more than 256; then
 * nothing is committed, and the rows remain appended. */
int32_t arrowwood_writer_commit_with(arrowwood_writer *writer, const arrowwood_commit_options *options,
                                     arrowwood_error *error);

/* Returns the positions of the newest commit in columns name and position, a row for each.
 * Errors: CLOSED. */
int32_t arrowwood_writer_positions(arrowwood_writer *writer, arrowwood_dataset **positions, arrowwood_error *error);

/* Returns likewise the positions of the newest commit whose rows a dataset has. No rows if the data is no table.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_positions(const arrowwood_dataset *dataset, arrowwood_dataset **positions,
                                    arrowwood_error *error);

/* Waits until all committed rows would survive a power failure. Unlike arrowwood_writer_sync, other threads can append
 * and commit meanwhile, and all waiting threads share one sync.
 * Errors: as arrowwood_writer_sync. */
int32_t arrowwood_writer_wait_durable(arrowwood_writer *writer, arrowwood_error *error);

/* Syncs all committed rows to disk: they survive a power failure once it returns.
 * Errors: IO: the writer is unusable afterwards; close it and open the table again. */
int32_t arrowwood_writer_sync(arrowwood_writer *writer, arrowwood_error *error);

/* Discards the rows appended since the last commit. */
int32_t arrowwood_writer_rollback(arrowwood_writer *writer, arrowwood_error *error);

typedef struct arrowwood_writer_state {
  uint64_t size;
  uint64_t rows;           /* the number of the row after the last one appended */
  uint64_t committed_rows; /* after the last one committed */
  uint64_t durable_rows;   /* after the last one that would survive a power failure */
  uint64_t dropped_rows;   /* committed rows that were lost in a system crash before the writer was opened */
} arrowwood_writer_state;

#define ARROWWOOD_WRITER_STATE_INIT {sizeof(arrowwood_writer_state), 0, 0, 0, 0}

/* Returns the writer's row counts. */
int32_t arrowwood_writer_progress(arrowwood_writer *writer, arrowwood_writer_state *state, arrowwood_error *error);

/* Rewrites all sealed segments as dense Arrow files; readers are not disturbed. progress may be NULL, as may rewritten,
 * which receives the number of segments.
 * Errors: IO: segments rewritten before remain so. */
int32_t arrowwood_writer_compact(arrowwood_writer *writer, arrowwood_progress progress, void *context,
                                 uint64_t *rewritten, arrowwood_error *error);

/* Removes the segments that contain only rows before row. Readers that have mapped them keep them; the remaining
 * rows keep their numbers. removed may be NULL; it receives the number of rows.
 * Errors: IO. */
int32_t arrowwood_writer_drop_before(arrowwood_writer *writer, uint64_t row, uint64_t *removed,
                                     arrowwood_error *error);

/* Commits, syncs, unlocks the table and frees the writer, even on failure. Does nothing for NULL.
 * Errors: as arrowwood_writer_commit and arrowwood_writer_sync. */
int32_t arrowwood_writer_close(arrowwood_writer *writer, arrowwood_error *error);

/* Frees the writer without a commit: uncommitted rows are lost. */
void arrowwood_writer_free(arrowwood_writer *writer);

/* Returns new rows of a table as they are committed. */
typedef struct arrowwood_follower arrowwood_follower;

/* Follows a table from row number start on; -1 starts with the next row committed.
 * Errors: INVALID_ARGUMENT: the dataset is not a whole table; ROW_OUT_OF_RANGE: rows from start on were dropped, or the
 * table ends before start. */
int32_t arrowwood_follow(const arrowwood_dataset *dataset, int64_t start, arrowwood_follower **follower,
                         arrowwood_error *error);

/* Returns the rows committed since the last call, as soon as there are any; sets *dataset to NULL if there are none
 * within timeout_ms milliseconds, or if another thread calls arrowwood_follower_wake. 0 doesn't wait, -1 waits
 * indefinitely. The thread sleeps while it waits.
 * Errors: FILE_CHANGED: the table was removed, or its last segment truncated; ROW_OUT_OF_RANGE: rows were dropped
 * before they were read, and the message says how many: follow the table again from its first row. */
int32_t arrowwood_follower_next(arrowwood_follower *follower, int64_t timeout_ms, arrowwood_dataset **dataset,
                                arrowwood_error *error);

/* Ends the wait of arrowwood_follower_next in another thread, for a program that wants to end or to do something else:
 * the call returns at once. If none waits, the next one doesn't. */
int32_t arrowwood_follower_wake(arrowwood_follower *follower, arrowwood_error *error);

/* Returns the number of the row after the last one returned. */
int32_t arrowwood_follower_next_row(arrowwood_follower *follower, uint64_t *row, arrowwood_error *error);

/* Frees a follower. */
void arrowwood_follower_free(arrowwood_follower *follower);

/* ---- builders ---- */

/* Collects rows in memory that grows in place. */
typedef struct arrowwood_builder arrowwood_builder;

/* Creates an empty builder. The schema remains the caller's.
 * Errors: UNSUPPORTED: a type can't grow; the message names the column. */
int32_t arrowwood_builder_new(const struct ArrowSchema *schema, arrowwood_builder **builder, arrowwood_error *error);

/* Append rows, as the writer's functions of the same name. If a batch of a dataset fails, the batches before it remain
 * appended. */
int32_t arrowwood_builder_append(arrowwood_builder *builder, struct ArrowArray *array, const struct ArrowSchema *schema,
                                 arrowwood_error *error);
int32_t arrowwood_builder_append_dataset(arrowwood_builder *builder, const arrowwood_dataset *dataset,
                                         arrowwood_error *error);
int32_t arrowwood_builder_append_row(arrowwood_builder *builder, const arrowwood_value *values, size_t count,
                                     arrowwood_error *error);
int32_t arrowwood_builder_append_columns(arrowwood_builder *builder, uint64_t rows, const arrowwood_column *columns,
                                         size_t count, arrowwood_error *error);

/* Returns the number of rows. */
int32_t arrowwood_builder_rows(arrowwood_builder *builder, uint64_t *rows, arrowwood_error *error);

/* Turns the rows into a dataset without copying, and frees the builder, even on failure, except for
 * INVALID_ARGUMENT errors about the arguments themselves.
 * Errors: CLOSED. */
int32_t arrowwood_builder_finish(arrowwood_builder *builder, arrowwood_dataset **dataset, arrowwood_error *error);

/* Frees a builder and its rows. */
void arrowwood_builder_free(arrowwood_builder *builder);

/* ---- maintenance ---- */

typedef struct arrowwood_report {
  uint64_t size;
  uint64_t rows;     /* rows, damaged or not, as far as known */
  uint64_t batches;  /* record batches */
  uint64_t segments; /* segments of a table; 0 for a file */
  uint64_t damaged;  /* findings that are damage; 0 if the data is intact */
  uint64_t kept;     /* rows kept by a repair; 0 if nothing was repaired */
  int64_t given_up;  /* rows given up by a repair; -1 if unknown */
} arrowwood_report;

#define ARROWWOOD_REPORT_INIT {sizeof(arrowwood_report), 0, 0, 0, 0, 0, 0}

/* Checks the structure and all values of a file, table, directory or glob; a table may be written at the same time.
 * Damage is not an error: it is counted in the report and listed in *findings, a row for each: path, offset (in
 * bytes; null if unknown), message, is_damage. progress and findings may be NULL.
 * Errors: NOT_FOUND, PERMISSION_DENIED, IO: it could not be read. */
int32_t arrowwood_check(const char *path, arrowwood_progress progress, void *context, arrowwood_report *report,
                        arrowwood_dataset **findings, arrowwood_error *error);

/* Checks, and keeps the rows before the first damage. A damaged file is not modified but renamed to a name that
 * ends in .damaged; *moved lists such files and directories in a column path. The findings are those before the
 * repair, the other numbers those after it. progress, findings and moved may be NULL.
 * Errors: BUSY: the table is being written; INVALID_ARGUMENT: path is a single segment of a table; as
 * arrowwood_check. */
int32_t arrowwood_repair(const char *path, arrowwood_progress progress, void *context, arrowwood_report *report,
                         arrowwood_dataset **findings, arrowwood_dataset **moved, arrowwood_error *error);

/* Rewrites all segments of a table as dense Arrow files; readers are not disturbed. progress and rewritten may be NULL.
 * Errors: BUSY: the table is being written, use arrowwood_writer_compact; NOT_FOUND: there is no table. */
int32_t arrowwood_compact(const char *path, arrowwood_progress progress, void *context, uint64_t *rewritten,
                          arrowwood_error *error);

typedef struct arrowwood_stat {
  uint64_t size;
  uint64_t segments;     /* files of the table */
  uint64_t dense;        /* how many of them are dense Arrow files, as written by compacting */
  uint64_t first_row;    /* the number of the first row */
  uint64_t end;          /* the number of the row after the last one committed */
  uint64_t durable_end;  /* after the last one that would survive a power failure, as far as the files tell */
  uint64_t sequence;     /* increases with each commit */
  uint64_t disk;         /* bytes allocated on disk */
  uint64_t apparent;     /* sizes of the files in bytes, including holes reserved for rows to come */
  uint64_t segment_rows; /* maximum rows of a segment; 0 if unknown */
  int32_t writer;        /* process id of the current writer; 0 if there is none */
  int32_t is_live;       /* 1 if the last segment grows */
} arrowwood_stat;

#define ARROWWOOD_STAT_INIT {sizeof(arrowwood_stat), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Returns facts about a table.
 * Errors: NOT_FOUND: there is no table; INVALID_DATA. */
int32_t arrowwood_table_stat(const char *path, arrowwood_stat *stat, arrowwood_error *error);

/* ---- constructors of values ---- */

static inline arrowwood_value arrowwood_null(void) {
  arrowwood_value value = {ARROWWOOD_KIND_NULL, 0, 0, {0}};
  return value;
}

static inline arrowwood_value arrowwood_bool(int flag) {
  arrowwood_value value = {ARROWWOOD_KIND_BOOL, 0, 0, {flag != 0}};
  return value;
}

static inline arrowwood_value arrowwood_int64(int64_t number) {
  arrowwood_value value = {ARROWWOOD_KIND_INT64, 0, 0, {number}};
  return value;
}

static inline arrowwood_value arrowwood_uint64(uint64_t number) {
  arrowwood_value value = {ARROWWOOD_KIND_UINT64, 0, 0, {0}};
  value.as.uint64 = number;
  return value;
}

static inline arrowwood_value arrowwood_float64(double number) {
  arrowwood_value value = {ARROWWOOD_KIND_FLOAT64, 0, 0, {0}};
  value.as.float64 = number;
  return value;
}

/* A text of length bytes; the value points to it. */
static inline arrowwood_value arrowwood_text_of(const char *text, size_t length) {
  arrowwood_value value = {ARROWWOOD_KIND_TEXT, 0, length, {0}};
  value.as.text = text;
  return value;
}

/* A NUL-terminated text, which the value points to; null for NULL. */
static inline arrowwood_value arrowwood_text(const char *text) {
  return text == NULL ? arrowwood_null() : arrowwood_text_of(text, strlen(text));
}

/* length bytes; the value points to them. */
static inline arrowwood_value arrowwood_bytes(const void *bytes, size_t length) {
  arrowwood_value value = {ARROWWOOD_KIND_BYTES, 0, length, {0}};
  value.as.bytes = (const uint8_t *)bytes;
  return value;
}

/* Units since 1970-01-01 00:00:00. */
static inline arrowwood_value arrowwood_timestamp(int64_t count, enum arrowwood_unit unit) {
  arrowwood_value value = {ARROWWOOD_KIND_TIMESTAMP, (int32_t)unit, 0, {count}};
  return value;
}

/* Days since 1970-01-01. */
static inline arrowwood_value arrowwood_date(int64_t days) {
  arrowwood_value value = {ARROWWOOD_KIND_DATE, 0, 0, {days}};
  return value;
}

#ifdef __cplusplus
}
#endif

#endif /* ARROWWOOD_H */
