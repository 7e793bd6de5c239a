/* arrowwood.h: opens Apache Arrow data of any size in place, and makes Arrow files that grow.
 *
 * docs/c.md shows how to use it. What holds for all functions:
 *
 * Results. A function that returns int32_t returns 0, or the code of an error (enum arrowwood_error_code), which it
 *   also puts into *error, unless error is NULL. After an error nothing was written through any other pointer, and
 *   nothing was made that would have to be freed, unless the function says otherwise. Each function names the errors
 *   that are its own; besides, any function may give
 *     INVALID_ARGUMENT  a pointer is NULL that must not be, a handle is of another type, a number is out of range;
 *     INTERNAL          a defect of the library. Nothing crosses into C but this error.
 *   Functions that read files may also give
 *     FILE_CHANGED      somebody has truncated or overwritten a file that is mapped: open it again;
 *     IO                the operating system failed, os_error says how.
 *
 * Handles. arrowwood_dataset and the other types without members are handles: made by functions with a parameter
 *   TYPE **, freed by the function that ends in _free (or _close, _finish). NULL may be freed. A handle that was freed
 *   must not be used or freed again: the library refuses many such handles, and cannot know all of them.
 *
 * Threads. Every function may be called by any thread. Datasets and predicates never change: any number of threads may
 *   use one at the same time. Calls with one writer, builder or follower wait for each other. Nobody may use a handle
 *   while it is being freed. No error is kept for a thread: it is in the struct that the caller passes.
 *
 * Text is UTF-8 that ends in NUL, paths are bytes that end in NUL; what is passed is copied, where it is needed after
 *   the call. Strings that come back (char **) are freed by arrowwood_string_free.
 *
 * Options begin with their size, so that later versions can have more of them: use the initialisers
 *   (ARROWWOOD_OPEN_OPTIONS_INIT) or set all to 0 and .size to sizeof. 0 is the default of every option, and NULL stands
 *   for all defaults. Structs that the library fills and that begin with their size are initialised likewise.
 *
 * Files must not be rewritten while they are open; growing, or being replaced by a rename, is fine. Calls give
 *   FILE_CHANGED when they notice. What lies in mapped files and is handed out in place (text of values, arrays, chunks)
 *   is memory like any mapping's: if somebody truncates the file, touching it raises SIGBUS. See arrowwood_copy.
 *
 * The process. The first file that is mapped installs a handler of SIGBUS, which passes on whatever is not about
 *   mapped files of this library: see arrowwood_leave_sigbus_alone.
 */
#ifndef ARROWWOOD_H
#define ARROWWOOD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this ABI. It changes with every function or struct that is no longer what it was; functions, and
 * members at the end of structs that begin with their size, are added without. */
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
  ARROWWOOD_ERROR_NOT_FOUND = 1,         /* no such file, or none that matches */
  ARROWWOOD_ERROR_PERMISSION_DENIED = 2, /* the operating system refused access */
  ARROWWOOD_ERROR_INVALID_DATA = 3,      /* the bytes are not what the Arrow format says they must be */
  ARROWWOOD_ERROR_UNSUPPORTED = 4,       /* legal, but this version can't do it */
  ARROWWOOD_ERROR_SCHEMA_MISMATCH = 5,   /* two schemas that must agree don't */
  ARROWWOOD_ERROR_COLUMN_NOT_FOUND = 6,  /* no column of that name or number */
  ARROWWOOD_ERROR_ROW_OUT_OF_RANGE = 7,  /* no row, batch or item of that number */
  ARROWWOOD_ERROR_INVALID_ARGUMENT = 8,  /* an argument that makes no sense here */
  ARROWWOOD_ERROR_CLOSED = 9,            /* a writer or builder that can't go on after an earlier failure */
  ARROWWOOD_ERROR_BUSY = 10,             /* another process writes the table; something is still in use */
  ARROWWOOD_ERROR_FILE_CHANGED = 11,     /* a mapped file was truncated or overwritten */
  ARROWWOOD_ERROR_COPY_NEEDED = 12,      /* something could not be had in place, and a copy was ruled out */
  ARROWWOOD_ERROR_IO = 13,               /* any other failure of the operating system */
  ARROWWOOD_ERROR_INTERNAL = 14          /* a defect of the library; the message says where */
};

typedef struct arrowwood_error {
  int32_t code;     /* enum arrowwood_error_code */
  int32_t os_error; /* errno of the system call that failed; 0 where none did */
  char *message;    /* what was being done to which path, what was expected and found, and what to do */
} arrowwood_error;

#define ARROWWOOD_ERROR_INIT {0, 0, NULL}

/* A function that fails overwrites *error without looking at what is there; one that succeeds leaves it alone. So the
 * message of one error is to be cleared before the struct is used for the next. */

/* Frees the message and sets the error to none. NULL, and an error that is none, are left alone. */
void arrowwood_error_clear(arrowwood_error *error);

/* What a code means: "file changed". The string is static. */
const char *arrowwood_error_name(int32_t code);

/* Frees a string that came from this library, or NULL. */
void arrowwood_string_free(char *string);

/* ---- the library ---- */

/* The ABI version of the library that is loaded: to be compared with ARROWWOOD_ABI_VERSION by those who load it by
 * name. */
uint32_t arrowwood_abi_version(void);

/* The library's version: "0.1.0". The string is static. */
const char *arrowwood_version(void);

/* Leaves SIGBUS to others, for a process that has a handler of its own and can't have it changed. A call that touches a
 * page of a file that was truncated then ends the process, where it would give FILE_CHANGED. To be called before the
 * first file is opened; the environment can say the same: ARROWWOOD_SIGBUS=off.
 * Errors: BUSY: a file was opened before, and the handler is installed. */
int32_t arrowwood_leave_sigbus_alone(arrowwood_error *error);

/* Copies length bytes to target, where there must be room for them; source and target must not overlap. Unlike memcpy it
 * gives an error where source lies in a mapped file (text of a value, an array, a chunk) that somebody has truncated.
 * What is in target then means nothing.
 * Errors: FILE_CHANGED. */
int32_t arrowwood_copy(void *target, const void *source, size_t length, arrowwood_error *error);

/* What is told how much of how much is done: rows, bytes or pieces. It is called during the call that it was given to, by
 * the same thread, with the context that was given with it. It must return, and must not throw. */
typedef void (*arrowwood_progress)(void *context, uint64_t done, uint64_t total);

/* ---- values ---- */

enum arrowwood_value_kind {
  ARROWWOOD_KIND_NULL = 0,
  ARROWWOOD_KIND_BOOL = 1,       /* as.int64: 0 or 1 */
  ARROWWOOD_KIND_INT64 = 2,      /* as.int64: a signed integer of any width */
  ARROWWOOD_KIND_UINT64 = 3,     /* as.uint64: an unsigned integer of any width */
  ARROWWOOD_KIND_INT128 = 4,     /* as.words[0] and [1], two's complement, the low word first: an exact sum. In what the
                                    library fills, as.int64 is the number itself wherever it fits. */
  ARROWWOOD_KIND_FLOAT32 = 5,    /* as.float64: a float of 16 or 32 bits */
  ARROWWOOD_KIND_FLOAT64 = 6,    /* as.float64 */
  ARROWWOOD_KIND_DECIMAL = 7,    /* as.words, two's complement of 256 bits, the low word first, times 10^-unit */
  ARROWWOOD_KIND_TEXT = 8,       /* as.text: length bytes of UTF-8, without a NUL behind them */
  ARROWWOOD_KIND_BYTES = 9,      /* as.bytes: length bytes */
  ARROWWOOD_KIND_UUID = 10,      /* as.bytes: 16 bytes */
  ARROWWOOD_KIND_DATE = 11,      /* as.int64: days since 1970-01-01 */
  ARROWWOOD_KIND_TIME = 12,      /* as.int64: units since midnight */
  ARROWWOOD_KIND_TIMESTAMP = 13, /* as.timestamp.count: units since 1970-01-01 00:00:00, of UTC where there is a zone:
                                    length bytes at as.timestamp.zone, without a NUL behind them; else NULL */
  ARROWWOOD_KIND_DURATION = 14,  /* as.int64: units */
  ARROWWOOD_KIND_INTERVAL = 15,  /* as.interval; unit is 0 for months, 1 for days and milliseconds, 2 for all three */
  ARROWWOOD_KIND_LIST = 16,      /* length items: see arrowwood_dataset_value */
  ARROWWOOD_KIND_MAP = 17,       /* length entries, each a struct of key and value */
  ARROWWOOD_KIND_STRUCT = 18,    /* length members */
  ARROWWOOD_KIND_UNION = 19      /* one value; as.text: the name of its member, of length bytes */
};

enum arrowwood_unit {
  ARROWWOOD_UNIT_SECOND = 0,
  ARROWWOOD_UNIT_MILLISECOND = 1,
  ARROWWOOD_UNIT_MICROSECOND = 2,
  ARROWWOOD_UNIT_NANOSECOND = 3
};

/* A value: one cell, a result, or what is appended or compared with.
 *
 * Text, bytes and names that the library hands out lie in the dataset's memory, and are there until the dataset that
 * was asked is freed. Those that it is given are not used after the call.
 * Nested values (list, map, struct, union) are only handed out; they are appended as Arrow data. */
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

/* A number of any kind as the nearest double.
 * Errors: INVALID_ARGUMENT: the value is no number. */
int32_t arrowwood_value_double(const arrowwood_value *value, double *number, arrowwood_error *error);

/* A value as text, as it is printed in tables: "2010-02-01 00:00:00".
 * Errors: INVALID_ARGUMENT: the value is nested. */
int32_t arrowwood_value_text(const arrowwood_value *value, char **text, arrowwood_error *error);

/* ---- opening ---- */

/* Some rows, in place: an immutable table over one or many record batches. */
typedef struct arrowwood_dataset arrowwood_dataset;

enum arrowwood_validate {
  ARROWWOOD_VALIDATE_LAZY = 0, /* a column's offsets, text and keys are checked when it is first used as a whole */
  ARROWWOOD_VALIDATE_FULL = 1, /* all are checked now */
  ARROWWOOD_VALIDATE_NONE = 2  /* never: the caller vouches for them */
};

typedef struct arrowwood_open_options {
  uint64_t size;
  int32_t validate; /* enum arrowwood_validate */
  int32_t copy;     /* 1: read everything into memory first; sound even against others who write the file */
  int32_t strict;   /* 1: COPY_NEEDED, naming the buffer, where something can't be had without a copy */
  int32_t partial;  /* 1: accept data that was cut off while being written, up to its last whole batch */
} arrowwood_open_options;

#define ARROWWOOD_OPEN_OPTIONS_INIT {sizeof(arrowwood_open_options), 0, 0, 0, 0}

/* Opens what is at path: an Arrow IPC file or stream, the folder of a table, a directory of *.arrow files, or all files
 * that a glob matches. Metadata is read, no value is touched.
 * Errors: NOT_FOUND, PERMISSION_DENIED; INVALID_DATA, saying what the file looks like instead; SCHEMA_MISMATCH between
 * files; UNSUPPORTED; COPY_NEEDED. */
int32_t arrowwood_open(const char *path, const arrowwood_open_options *options, arrowwood_dataset **dataset,
                       arrowwood_error *error);

/* Opens several paths, whose schemas must agree, as one dataset.
 * Errors: as arrowwood_open; INVALID_ARGUMENT: there is no path. */
int32_t arrowwood_open_paths(const char *const *paths, size_t path_count, const arrowwood_open_options *options,
                             arrowwood_dataset **dataset, arrowwood_error *error);

/* Opens length bytes in memory, an IPC file or stream, in place. They must stay as they are until release is called,
 * once, with context, by whichever thread frees the last dataset, array or chunks that are made of them; with
 * options.copy that is before this function returns. release may be NULL: then the caller knows when that is. After an
 * error the bytes are the caller's, and release is not called.
 * Errors: as arrowwood_open. */
int32_t arrowwood_open_memory(const void *bytes, size_t length, void (*release)(void *), void *context,
                              const arrowwood_open_options *options, arrowwood_dataset **dataset,
                              arrowwood_error *error);

/* Takes all batches of a stream as a dataset, without copying. The stream is moved: stream->release is NULL afterwards,
 * also after an error, unless that was about an argument. Whoever made it vouches for the values.
 * Errors: INVALID_ARGUMENT: the stream failed, with what it says; or its arrays don't follow the interface. */
int32_t arrowwood_import_stream(struct ArrowArrayStream *stream, arrowwood_dataset **dataset, arrowwood_error *error);

/* Takes one array as a dataset, without copying: a struct gives its members as columns, another array one column called
 * "values". The array is moved as a stream is; the schema stays the caller's.
 * Errors: as arrowwood_import_stream; INVALID_ARGUMENT: a struct with null rows. */
int32_t arrowwood_import_array(struct ArrowArray *array, const struct ArrowSchema *schema, arrowwood_dataset **dataset,
                               arrowwood_error *error);

typedef struct arrowwood_csv_options {
  uint64_t size;
  const struct ArrowSchema *schema; /* the columns to read, found by name; NULL: all, with types that fit all values */
  const char *const *dictionary;    /* names of text columns to dictionary-encode */
  size_t dictionary_count;
  int32_t delimiter; /* an ASCII character; 0: a comma */
  int32_t reserved;  /* 0 */
} arrowwood_csv_options;

#define ARROWWOOD_CSV_OPTIONS_INIT {sizeof(arrowwood_csv_options), NULL, NULL, 0, 0, 0}

/* Reads CSV text, whose first line names the columns, into memory.
 * Errors: NOT_FOUND, PERMISSION_DENIED; INVALID_DATA, saying in which line; COLUMN_NOT_FOUND. */
int32_t arrowwood_read_csv(const char *path, const arrowwood_csv_options *options, arrowwood_dataset **dataset,
                           arrowwood_error *error);

enum arrowwood_format {
  ARROWWOOD_FORMAT_FILE = 0,  /* with a footer that says where the batches are */
  ARROWWOOD_FORMAT_STREAM = 1 /* message after message */
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
  uint64_t max_rows;   /* the most rows of a record batch; 0: batches stay as they are */
} arrowwood_write_options;

#define ARROWWOOD_WRITE_OPTIONS_INIT {sizeof(arrowwood_write_options), 0, 0, 0}

/* Writes the rows to an Arrow IPC file or stream, which replaces what is at path in one step.
 * Errors: INVALID_DATA: a value is damaged; PERMISSION_DENIED, NOT_FOUND: of the folder. */
int32_t arrowwood_write(const arrowwood_dataset *dataset, const char *path, const arrowwood_write_options *options,
                        arrowwood_error *error);

/* Makes a schema out of text: "ts: timestamp[us] not null, symbol: category, price: float64". The types are called as
 * arrowwood_dataset_display shows them; category stands for dictionary<int32, utf8>. The caller releases the schema.
 * Errors: INVALID_ARGUMENT, saying what is wrong where. */
int32_t arrowwood_schema_parse(const char *text, struct ArrowSchema *schema, arrowwood_error *error);

/* ---- datasets ---- */

/* Frees a dataset, or NULL. Arrays, streams, chunks and other datasets that were made of it stay good. */
void arrowwood_dataset_free(arrowwood_dataset *dataset);

/* Makes another handle of the same rows, in the time of an allocation. */
int32_t arrowwood_dataset_clone(const arrowwood_dataset *dataset, arrowwood_dataset **clone, arrowwood_error *error);

/* The number of rows. A stream is walked for it, once.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_rows(const arrowwood_dataset *dataset, uint64_t *rows, arrowwood_error *error);

/* The number of columns. */
int32_t arrowwood_dataset_columns(const arrowwood_dataset *dataset, size_t *columns, arrowwood_error *error);

/* The number of record batches.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_batches(const arrowwood_dataset *dataset, size_t *batches, arrowwood_error *error);

/* Names and types of the columns: a struct type. The caller releases the schema, which lives as long as it likes.
 * Errors: UNSUPPORTED: the interface has no such type. */
int32_t arrowwood_dataset_schema(const arrowwood_dataset *dataset, struct ArrowSchema *schema, arrowwood_error *error);

/* The number of the column called name, counted from 0.
 * Errors: COLUMN_NOT_FOUND, naming the columns; INVALID_ARGUMENT: several have the name. */
int32_t arrowwood_dataset_column_index(const arrowwood_dataset *dataset, const char *name, size_t *column,
                                       arrowwood_error *error);

/* The number of the first row in its table: rows keep their numbers when earlier ones are dropped. */
int32_t arrowwood_dataset_first_row(const arrowwood_dataset *dataset, uint64_t *row, arrowwood_error *error);

/* The number of the column that the table is sorted by; -1 for none. */
int32_t arrowwood_dataset_sorted_by(const arrowwood_dataset *dataset, int64_t *column, arrowwood_error *error);

/* The bytes that the rows take in their buffers, dictionaries apart.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_bytes(const arrowwood_dataset *dataset, uint64_t *bytes, arrowwood_error *error);

/* Bytes mapped from files; bytes that had to be copied (decompressed, byte-swapped, dictionaries put together); bytes of
 * the mapped ones that are in physical memory, for which the system is asked about every page. Each pointer may be NULL,
 * and then that is not asked for. */
int32_t arrowwood_dataset_footprint(const arrowwood_dataset *dataset, uint64_t *mapped, uint64_t *copied,
                                    uint64_t *resident, arrowwood_error *error);

/* Some columns, by number, in the order in which they are given.
 * Errors: COLUMN_NOT_FOUND. */
int32_t arrowwood_dataset_select(const arrowwood_dataset *dataset, const size_t *columns, size_t count,
                                 arrowwood_dataset **selected, arrowwood_error *error);

/* Some columns, by name.
 * Errors: COLUMN_NOT_FOUND; INVALID_ARGUMENT: several have a name. */
int32_t arrowwood_dataset_select_names(const arrowwood_dataset *dataset, const char *const *names, size_t count,
                                       arrowwood_dataset **selected, arrowwood_error *error);

/* Rows from number start on, so many of them, or as many as there are.
 * Errors: INVALID_DATA. */
int32_t arrowwood_dataset_slice(const arrowwood_dataset *dataset, uint64_t start, uint64_t rows,
                                arrowwood_dataset **slice, arrowwood_error *error);

/* The rows of all datasets, one after the other, without copying.
 * Errors: SCHEMA_MISMATCH, with the first difference; INVALID_ARGUMENT: there is none. */
int32_t arrowwood_dataset_concat(const arrowwood_dataset *const *datasets, size_t count, arrowwood_dataset **all,
                                 arrowwood_error *error);

/* The dataset with the rows that were committed since; the same rows where there are none, or where it can't grow.
 * dataset itself keeps the rows that it has. */
int32_t arrowwood_dataset_refresh(const arrowwood_dataset *dataset, arrowwood_dataset **newer, arrowwood_error *error);

/* All cells of a row: count must be the number of columns, and cells have room for so many.
 * Errors: ROW_OUT_OF_RANGE; INVALID_DATA: a value is damaged. After an error cells may be filled in part. */
int32_t arrowwood_dataset_cells(const arrowwood_dataset *dataset, uint64_t row, arrowwood_value *cells, size_t count,
                                arrowwood_error *error);

/* One cell, or what is inside of it. path begins with the number of a column; each further number leads inside: to an
 * item of a list, an entry of a map (and in that to 0, the key, or 1, the value), a member of a struct, or by 0 to the
 * value of a union.
 * Errors: ROW_OUT_OF_RANGE: also of an item; COLUMN_NOT_FOUND: also of a member; INVALID_DATA. */
int32_t arrowwood_dataset_value(const arrowwood_dataset *dataset, uint64_t row, const uint64_t *path, size_t depth,
                                arrowwood_value *value, arrowwood_error *error);

/* The dataset as a table that people can read: its first and last rows, so many of them, in lines of so many characters;
 * 0 stands for 10 rows and 100 characters.  */
int32_t arrowwood_dataset_display(const arrowwood_dataset *dataset, uint64_t rows, uint64_t width, char **text,
                                  arrowwood_error *error);

/* The messages of the files, one row for each, in the order in which they stand there: kind, offset, metadata_offset,
 * metadata_length, body_offset, body_length, version, rows, dictionary, is_delta, compression, and the lists fields
 * (depth first: depth, name, type, nullable, dictionary, keys, metadata), nodes (field, length, null_count), buffers
 * (field, name, offset from body_offset, length) and metadata (key, value). All numbers are bytes, but for rows,
 * lengths of nodes and counts.
 * Errors: UNSUPPORTED: the rows are in memory; INVALID_DATA. */
int32_t arrowwood_dataset_messages(const arrowwood_dataset *dataset, arrowwood_dataset **messages,
                                   arrowwood_error *error);

/* Checks all values now. progress may be NULL.
 * Errors: INVALID_DATA, naming path, batch, column and row. */
int32_t arrowwood_dataset_validate(const arrowwood_dataset *dataset, arrowwood_progress progress, void *context,
                                   arrowwood_error *error);

/* ---- columns as memory ---- */

enum arrowwood_flags {
  /* Only the structure is checked: each buffer is as long as the rows and the type ask for. What stands in it may be
   * anything: offsets, views, keys, type ids and run ends may point anywhere, text may not be UTF-8, null counts are
   * those that were declared. It costs nothing per row. WHO PASSES THIS FLAG PROMISES to bound each access that goes by
   * such a value; most Arrow libraries don't, so their importers must not get such arrays. */
  ARROWWOOD_STRUCTURE_ONLY = 1,
  /* Buffers that are not aligned for their type are copied. Without it they are where the file has them: files of
   * Arrow's own libraries are aligned, others may not be. */
  ARROWWOOD_ALIGNED = 2
};

/* All batches as a stream of structs of all columns; buffers are shared with the mapping, values of each batch are checked
 * when it is asked for, unless flags say otherwise. The caller releases stream and arrays; both keep what they need, also
 * when the dataset is freed.
 * Errors: INVALID_DATA, UNSUPPORTED; those of a batch come from the stream's get_next and get_last_error. */
int32_t arrowwood_dataset_stream(const arrowwood_dataset *dataset, uint32_t flags, struct ArrowArrayStream *stream,
                                 arrowwood_error *error);

/* All batches of one column as a stream of arrays of its own type; as arrowwood_dataset_stream.
 * Errors: COLUMN_NOT_FOUND; as arrowwood_dataset_stream. */
int32_t arrowwood_dataset_column_stream(const arrowwood_dataset *dataset, size_t column, uint32_t flags,
                                        struct ArrowArrayStream *stream, arrowwood_error *error);

/* One batch, counted from 0, as a struct of all columns; as arrowwood_dataset_stream, which is better for all batches. Its
 * type is that of arrowwood_dataset_schema.
 * Errors: ROW_OUT_OF_RANGE: there is no such batch; INVALID_DATA. */
int32_t arrowwood_dataset_batch(const arrowwood_dataset *dataset, size_t batch, uint32_t flags,
                                struct ArrowArray *array, arrowwood_error *error);

/* Memory: size bytes from data on; NULL where there is none. */
typedef struct arrowwood_buffer {
  const void *data;
  uint64_t size;
} arrowwood_buffer;

/* Where the values of one chunk of a column lie: the rows that one batch has of it.
 *
 * All buffers begin with the chunk's first row, so value i of a column of doubles is ((const double *)values.data)[i].
 * Bits begin with bit validity_bit or values_bit of the first byte, and are counted from the lowest on. Which buffers
 * there are follows from the type, as in the Arrow Columnar Format:
 *   numbers, times, decimals, fixed-size binary: values
 *   bool: values, as bits
 *   utf8, binary (large or not): offsets (rows + 1, of 32 bits or 64; none may be there where rows is 0) into data
 *   utf8 view, binary view: values (16 bytes each), variadic
 *   list, large list, map: offsets (rows + 1) into children[0]
 *   list view: offsets and sizes (one per row) into children[0]
 *   fixed-size list: children[0], whose first item is the first row's
 *   struct, sparse union: children, whose rows are this one's; a union's values are its type ids, of 8 bits
 *   dense union: values (type ids), offsets (one per row, of 32 bits) into children
 *   dictionary: values (keys), dictionary
 *   run-end encoded: children[0] (run ends), children[1] (values); row i is row i + run_offset of the runs. */
typedef struct arrowwood_chunk {
  uint64_t first_row;        /* the number of its first row in the column; 0 of what is inside of another chunk */
  uint64_t rows;             /* the number of rows */
  uint64_t null_count;       /* how many of them are null by the validity bitmap */
  arrowwood_buffer validity; /* bits, 1 for a row that is not null; NULL where none is */
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

/* What keeps a table of chunks, and the memory that it points to. */
typedef struct arrowwood_chunks arrowwood_chunks;

/* Where all values of a column lie, batch by batch: *chunks is a table of *count chunks, good until *owner is freed, also
 * when the dataset is. One call, however many batches there are. Values are checked as for arrowwood_dataset_stream.
 * Errors: COLUMN_NOT_FOUND, INVALID_DATA. */
int32_t arrowwood_dataset_chunks(const arrowwood_dataset *dataset, size_t column, uint32_t flags,
                                 const arrowwood_chunk **chunks, size_t *count, arrowwood_chunks **owner,
                                 arrowwood_error *error);

/* Frees a table of chunks, or NULL. */
void arrowwood_chunks_free(arrowwood_chunks *owner);

/* ---- questions ---- */

enum arrowwood_function {
  ARROWWOOD_SUM = 1,        /* INT128 of integers and booleans, FLOAT64 of floats, DECIMAL, DURATION; 0 of no values */
  ARROWWOOD_MEAN = 2,       /* FLOAT64; null of no values */
  ARROWWOOD_MIN = 3,        /* of the column's kind; null of no values. NaN is left out unless there is nothing else */
  ARROWWOOD_MAX = 4,        /* likewise */
  ARROWWOOD_COUNT = 5,      /* UINT64: the number of values that are not null */
  ARROWWOOD_VAR = 6,        /* FLOAT64: the variance of a sample, divided by n - 1; null of fewer than two values */
  ARROWWOOD_STD = 7,        /* FLOAT64: its square root */
  ARROWWOOD_NULL_COUNT = 8, /* UINT64. From here on not of groups. */
  ARROWWOOD_N_UNIQUE = 9,   /* UINT64: how many different values there are; null is one */
  ARROWWOOD_ANY = 10,       /* BOOL: whether any value of a column of booleans is true */
  ARROWWOOD_ALL = 11        /* BOOL: whether none is false */
};

/* A column as one value, by all cores; nulls are left out. The result is the same for any number of threads and any cut
 * into batches.
 * Errors: COLUMN_NOT_FOUND; UNSUPPORTED: the type has no such function; INVALID_ARGUMENT: a sum of decimals or durations
 * does not fit; INVALID_DATA. */
int32_t arrowwood_dataset_reduce(const arrowwood_dataset *dataset, size_t column, int32_t function,
                                 arrowwood_value *value, arrowwood_error *error);

/* The value that a share of the values (0 to 1) lies below, exactly; FLOAT64, or null where there is nothing but nulls and
 * NaN.
 * Errors: as arrowwood_dataset_reduce. */
int32_t arrowwood_dataset_quantile(const arrowwood_dataset *dataset, size_t column, double share,
                                   arrowwood_value *value, arrowwood_error *error);

/* The quantile of a sample of 1,048,576 rows, the same each time: costs the same however large the column is.
 * Errors: as arrowwood_dataset_reduce. */
int32_t arrowwood_dataset_approx_quantile(const arrowwood_dataset *dataset, size_t column, double share,
                                          arrowwood_value *value, arrowwood_error *error);

/* Rows by number, in that order, in memory of their own; negative numbers count from the end.
 * Errors: ROW_OUT_OF_RANGE, naming the first. */
int32_t arrowwood_dataset_take(const arrowwood_dataset *dataset, const int64_t *rows, size_t count,
                               arrowwood_dataset **taken, arrowwood_error *error);

/* So many different rows, chosen with equal chances, in the order in which they were drawn. One seed gives one sample.
 * Errors: INVALID_ARGUMENT: there are fewer rows. */
int32_t arrowwood_dataset_sample(const arrowwood_dataset *dataset, uint64_t rows, uint64_t seed,
                                 arrowwood_dataset **sample, arrowwood_error *error);

/* All rows in a random order: a view, which copies nothing until columns are used as a whole. One seed gives one order. */
int32_t arrowwood_dataset_shuffle(const arrowwood_dataset *dataset, uint64_t seed, arrowwood_dataset **shuffled,
                                  arrowwood_error *error);

/* The rows whose value in the column that the table is sorted by lies between two, both included, found by binary search.
 * Integers stand for times in the column's unit as well.
 * Errors: INVALID_ARGUMENT: the dataset is not of one sorted table, or a value is of another type. */
int32_t arrowwood_dataset_between(const arrowwood_dataset *dataset, const arrowwood_value *low,
                                  const arrowwood_value *high, arrowwood_dataset **rows, arrowwood_error *error);

/* Each value of a column and how often it is there, in columns of its name and "count": the most frequent first.
 * Errors: COLUMN_NOT_FOUND; UNSUPPORTED: the type is nested. */
int32_t arrowwood_dataset_value_counts(const arrowwood_dataset *dataset, size_t column, arrowwood_dataset **counts,
                                       arrowwood_error *error);

/* What there is to say of each column: rows for count, null_count, mean, std, min, 25%, 50%, 75% and max. */
int32_t arrowwood_dataset_describe(const arrowwood_dataset *dataset, arrowwood_dataset **description,
                                   arrowwood_error *error);

/* All rows as one record batch in memory, gathered by several threads.
 * Errors: INVALID_DATA; UNSUPPORTED: dictionaries can't be made one. */
int32_t arrowwood_dataset_collect(const arrowwood_dataset *dataset, arrowwood_dataset **collected,
                                  arrowwood_error *error);

/* Which rows are asked for. A comparison with a null is neither true nor false, and so is its negation: such a row is not
 * found. NaN is not equal to anything, and neither less nor greater. Numbers are compared by their values, times with
 * times of another unit; integers stand for times in the column's unit as well. */
typedef struct arrowwood_predicate arrowwood_predicate;

enum arrowwood_operator {
  ARROWWOOD_EQ = 1,
  ARROWWOOD_NE = 2,
  ARROWWOOD_LT = 3,
  ARROWWOOD_LE = 4,
  ARROWWOOD_GT = 5,
  ARROWWOOD_GE = 6
};

/* The column called column compared with a value. That there is such a column is found out when rows are asked for. */
int32_t arrowwood_predicate_compare(const char *column, int32_t operator_code, const arrowwood_value *value,
                                    arrowwood_predicate **predicate, arrowwood_error *error);

/* Equal to one of some values. */
int32_t arrowwood_predicate_in(const char *column, const arrowwood_value *values, size_t count,
                               arrowwood_predicate **predicate, arrowwood_error *error);

/* Null. */
int32_t arrowwood_predicate_null(const char *column, arrowwood_predicate **predicate, arrowwood_error *error);

/* Both, one or both, the other; a and b stay the caller's.
 * Errors: INVALID_ARGUMENT: more than 500 are inside of one another. */
int32_t arrowwood_predicate_and(const arrowwood_predicate *a, const arrowwood_predicate *b,
                                arrowwood_predicate **predicate, arrowwood_error *error);
int32_t arrowwood_predicate_or(const arrowwood_predicate *a, const arrowwood_predicate *b,
                               arrowwood_predicate **predicate, arrowwood_error *error);
int32_t arrowwood_predicate_not(const arrowwood_predicate *a, arrowwood_predicate **predicate, arrowwood_error *error);

/* The predicate as text: "(price > 100) & (symbol == \"IBM\")". */
int32_t arrowwood_predicate_text(const arrowwood_predicate *predicate, char **text, arrowwood_error *error);

/* Frees a predicate, or NULL. */
void arrowwood_predicate_free(arrowwood_predicate *predicate);

/* The rows of which predicate is true, in their order, in memory of their own. Of a table that is sorted by a column, only
 * the rows between its bounds are looked at.
 * Errors: COLUMN_NOT_FOUND; INVALID_ARGUMENT: a column can't be compared with a value of that kind; UNSUPPORTED: nor with
 * any; INVALID_DATA. */
int32_t arrowwood_dataset_filter(const arrowwood_dataset *dataset, const arrowwood_predicate *predicate,
                                 arrowwood_dataset **found, arrowwood_error *error);

/* A column of a result: a function of a column. */
typedef struct arrowwood_aggregate {
  const char *name;   /* what it is to be called */
  const char *column; /* what it is of; NULL with ARROWWOOD_COUNT: the number of rows */
  int32_t function;   /* enum arrowwood_function, as far as ARROWWOOD_STD */
  int32_t reserved;   /* 0 */
} arrowwood_aggregate;

/* Something of each group of rows that have the same values in the columns by, in one pass: a row for each group, with
 * those values and what is asked for. All rows are one group where by_count is 0; predicate may be NULL. Groups come in
 * the order in which they appear.
 * Errors: COLUMN_NOT_FOUND; UNSUPPORTED: a type has no groups, or not that function; INVALID_ARGUMENT: a sum does not
 * fit, or two columns would have one name; INVALID_DATA. */
int32_t arrowwood_dataset_aggregate(const arrowwood_dataset *dataset, const char *const *by, size_t by_count,
                                    const arrowwood_predicate *predicate, const arrowwood_aggregate *columns,
                                    size_t column_count, arrowwood_dataset **groups, arrowwood_error *error);

/* ---- tables that grow ---- */

/* The single writer of a growing table. Rows are appended, and seen by others when they are committed: all of them or
 * none. */
typedef struct arrowwood_writer arrowwood_writer;

enum arrowwood_sync {
  ARROWWOOD_SYNC_INTERVAL = 0, /* every sync_interval_ms */
  ARROWWOOD_SYNC_NEVER = 1,    /* when arrowwood_writer_sync or arrowwood_writer_close is called */
  ARROWWOOD_SYNC_COMMIT = 2    /* with every commit */
};

typedef struct arrowwood_writer_options {
  uint64_t size;
  int32_t sync;                  /* when commits are brought to the disk: enum arrowwood_sync */
  int32_t force;                 /* 1: also on file systems on which mappings of several machines don't agree (NFS) */
  uint64_t sync_interval_ms;     /* 0: 1000 */
  uint64_t segment_rows;         /* the most rows of a segment; 0: 4,194,304, or what the table was made with */
  const char *const *dictionary; /* names of text columns to store as dictionary<int32, utf8> */
  size_t dictionary_count;
  const char *sorted_by; /* a column whose values never decrease; NULL for none, or what the table was made with */
} arrowwood_writer_options;

#define ARROWWOOD_WRITER_OPTIONS_INIT {sizeof(arrowwood_writer_options), 0, 0, 0, 0, NULL, 0, NULL}

/* Opens the table in the folder path for writing, or makes it. schema is needed where there is no table yet, and compared
 * where there is one; it may be NULL then, and stays the caller's.
 * Errors: BUSY: another process writes the table, the message names it; SCHEMA_MISMATCH, with the first difference;
 * NOT_FOUND: there is neither a table nor a schema; UNSUPPORTED: a type can't grow, or the file system is a network's. */
int32_t arrowwood_writer_open(const char *path, const struct ArrowSchema *schema,
                              const arrowwood_writer_options *options, arrowwood_writer **writer,
                              arrowwood_error *error);

/* Names and types of the columns; the caller releases the schema. */
int32_t arrowwood_writer_schema(arrowwood_writer *writer, struct ArrowSchema *schema, arrowwood_error *error);

/* Appends the rows of one array, a struct whose members are found by name. The array is moved: array->release is NULL
 * afterwards, also after an error, unless that was about an argument. The schema stays the caller's.
 * Errors: SCHEMA_MISMATCH, COLUMN_NOT_FOUND; INVALID_ARGUMENT: a null where there are none, a value out of range, a row
 * out of order, naming column and row; CLOSED. In all cases nothing was appended. */
int32_t arrowwood_writer_append(arrowwood_writer *writer, struct ArrowArray *array, const struct ArrowSchema *schema,
                                arrowwood_error *error);

/* Appends all rows of a stream, or none. The stream is moved as an array is.
 * Errors: as arrowwood_writer_append; INVALID_ARGUMENT: the stream failed. */
int32_t arrowwood_writer_append_stream(arrowwood_writer *writer, struct ArrowArrayStream *stream,
                                       arrowwood_error *error);

/* Appends all rows of a dataset, or none.
 * Errors: as arrowwood_writer_append; INVALID_DATA: a value is damaged. */
int32_t arrowwood_writer_append_dataset(arrowwood_writer *writer, const arrowwood_dataset *dataset,
                                        arrowwood_error *error);

/* Appends one row: count values, one for each column, in the table's order. Integers stand for dates, times and
 * timestamps in the column's unit as well, and for floats and decimals where nothing is lost. Columns of lists and
 * structs can only be null here.
 * Errors: as arrowwood_writer_append. */
int32_t arrowwood_writer_append_row(arrowwood_writer *writer, const arrowwood_value *values, size_t count,
                                    arrowwood_error *error);

/* Makes all appended rows visible to others, in one step; with durable (1) brings them to the disk as well.
 * Errors: IO: none of them is visible, or they could not be brought to the disk; CLOSED. */
int32_t arrowwood_writer_commit(arrowwood_writer *writer, int32_t durable, arrowwood_error *error);

/* Brings all committed rows to the disk: they survive a power cut when it returns.
 * Errors: IO: after that nothing more can be written; close the writer and open the table anew. */
int32_t arrowwood_writer_sync(arrowwood_writer *writer, arrowwood_error *error);

/* Forgets what was appended since the last commit. */
int32_t arrowwood_writer_rollback(arrowwood_writer *writer, arrowwood_error *error);

typedef struct arrowwood_writer_state {
  uint64_t size;
  uint64_t rows;           /* the number of the row behind the last one appended */
  uint64_t committed_rows; /* behind the last one that others can see */
  uint64_t durable_rows;   /* behind the last one that would survive a power cut */
  uint64_t dropped_rows;   /* how many committed rows a crash of the machine has cost before the writer was opened */
} arrowwood_writer_state;

#define ARROWWOOD_WRITER_STATE_INIT {sizeof(arrowwood_writer_state), 0, 0, 0, 0}

/* How far the writer is. */
int32_t arrowwood_writer_progress(arrowwood_writer *writer, arrowwood_writer_state *state, arrowwood_error *error);

/* Rewrites all sealed segments as dense Arrow files, while readers go on. progress and rewritten (how many were) may be
 * NULL.
 * Errors: IO: what was rewritten before stays so. */
int32_t arrowwood_writer_compact(arrowwood_writer *writer, arrowwood_progress progress, void *context,
                                 uint64_t *rewritten, arrowwood_error *error);

/* Removes the segments that hold no row from number row on. Readers that have mapped them keep them; rows keep their
 * numbers. removed (how many rows were) may be NULL.
 * Errors: IO. */
int32_t arrowwood_writer_drop_before(arrowwood_writer *writer, uint64_t row, uint64_t *removed,
                                     arrowwood_error *error);

/* Commits, syncs, lets others write, and frees the writer: also after an error, which says what is not on the disk. NULL
 * is left alone.
 * Errors: as arrowwood_writer_commit and arrowwood_writer_sync. */
int32_t arrowwood_writer_close(arrowwood_writer *writer, arrowwood_error *error);

/* Frees the writer, or NULL, without a commit: what was not committed is gone. */
void arrowwood_writer_free(arrowwood_writer *writer);

/* New rows of a table, as they are committed. */
typedef struct arrowwood_follower arrowwood_follower;

/* Follows the table that dataset is, from row number start on; with -1 from the rows that are committed from now on.
 * Errors: INVALID_ARGUMENT: the dataset is not a whole table. */
int32_t arrowwood_follow(const arrowwood_dataset *dataset, int64_t start, arrowwood_follower **follower,
                         arrowwood_error *error);

/* The rows that were committed since the last call, as soon as there are any; *dataset is NULL if none came for timeout_ms
 * milliseconds. 0 only looks, -1 waits without end. The thread sleeps meanwhile.
 * Errors: FILE_CHANGED: the table was removed, or its last segment truncated. */
int32_t arrowwood_follower_next(arrowwood_follower *follower, int64_t timeout_ms, arrowwood_dataset **dataset,
                                arrowwood_error *error);

/* The number of the row behind the last that was handed out. */
int32_t arrowwood_follower_next_row(arrowwood_follower *follower, uint64_t *row, arrowwood_error *error);

/* Frees a follower, or NULL. */
void arrowwood_follower_free(arrowwood_follower *follower);

/* ---- rows gathered in memory ---- */

/* Gathers rows in memory that grows without being moved. */
typedef struct arrowwood_builder arrowwood_builder;

/* Makes a builder of no rows yet; the schema stays the caller's.
 * Errors: UNSUPPORTED: a type can't grow, the message names the column. */
int32_t arrowwood_builder_new(const struct ArrowSchema *schema, arrowwood_builder **builder, arrowwood_error *error);

/* Append rows: as the functions of a writer that are called so. After an error that is not about the first batch of a
 * dataset, the batches before it stay. */
int32_t arrowwood_builder_append(arrowwood_builder *builder, struct ArrowArray *array, const struct ArrowSchema *schema,
                                 arrowwood_error *error);
int32_t arrowwood_builder_append_dataset(arrowwood_builder *builder, const arrowwood_dataset *dataset,
                                         arrowwood_error *error);
int32_t arrowwood_builder_append_row(arrowwood_builder *builder, const arrowwood_value *values, size_t count,
                                     arrowwood_error *error);

/* The number of rows. */
int32_t arrowwood_builder_rows(arrowwood_builder *builder, uint64_t *rows, arrowwood_error *error);

/* The rows as a dataset, in the memory where they are. The builder is freed, also after an error, unless that was about an
 * argument.
 * Errors: CLOSED. */
int32_t arrowwood_builder_finish(arrowwood_builder *builder, arrowwood_dataset **dataset, arrowwood_error *error);

/* Frees a builder, or NULL, and its rows. */
void arrowwood_builder_free(arrowwood_builder *builder);

/* ---- files and tables as a whole ---- */

typedef struct arrowwood_report {
  uint64_t size;
  uint64_t rows;     /* the rows there are, good or not, as far as can be said */
  uint64_t batches;  /* the record batches */
  uint64_t segments; /* the segments of a table; 0 of a file */
  uint64_t damaged;  /* how many findings are damage: 0 if all is well */
  uint64_t kept;     /* of a repair that had something to do: the rows that were kept */
  int64_t given_up;  /* and those that were given up; -1 if nobody knows how many */
} arrowwood_report;

#define ARROWWOOD_REPORT_INIT {sizeof(arrowwood_report), 0, 0, 0, 0, 0, 0}

/* Checks all that the file, table, directory or glob at path says about itself, and every value; a table may be written
 * meanwhile. Damage is no error: it is in the report, and in *findings, a row for each: path, offset (the byte, null where
 * none is known), message, is_damage. progress and findings may be NULL.
 * Errors: NOT_FOUND, PERMISSION_DENIED, IO: it could not be looked at. */
int32_t arrowwood_check(const char *path, arrowwood_progress progress, void *context, arrowwood_report *report,
                        arrowwood_dataset **findings, arrowwood_error *error);

/* As arrowwood_check, and keeps the rows before the first damage, where there is any. A damaged file is never written to:
 * it gets a name that ends in .damaged. *moved has a row for each file or folder that was moved: path. The findings are
 * those of before, the numbers of rows, batches and segments what there is now. progress, findings and moved may be NULL.
 * Errors: BUSY: the table is being written; INVALID_ARGUMENT: it is a single segment of a table; as arrowwood_check. */
int32_t arrowwood_repair(const char *path, arrowwood_progress progress, void *context, arrowwood_report *report,
                         arrowwood_dataset **findings, arrowwood_dataset **moved, arrowwood_error *error);

/* Rewrites all segments of a table as dense Arrow files, while readers go on. progress and rewritten may be NULL.
 * Errors: BUSY: the table is being written, see arrowwood_writer_compact; NOT_FOUND: there is no table. */
int32_t arrowwood_compact(const char *path, arrowwood_progress progress, void *context, uint64_t *rewritten,
                          arrowwood_error *error);

typedef struct arrowwood_stat {
  uint64_t size;
  uint64_t segments;     /* the files of the table */
  uint64_t dense;        /* how many of them are ordinary Arrow files, as compacting leaves them */
  uint64_t first_row;    /* the number of the first row that the table still has */
  uint64_t end;          /* the number of the row behind the last one that was committed */
  uint64_t durable_end;  /* the same of those that would survive a power cut, as far as the files tell */
  uint64_t sequence;     /* grows with each commit */
  uint64_t disk;         /* bytes that the files take on the disk */
  uint64_t apparent;     /* bytes of the files as they are listed, with the holes that are kept for rows to come */
  uint64_t segment_rows; /* the most rows of a segment; 0 if unknown */
  int32_t writer;        /* the process that writes the table now; 0 for none */
  int32_t is_live;       /* whether the last segment grows */
} arrowwood_stat;

#define ARROWWOOD_STAT_INIT {sizeof(arrowwood_stat), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* What can be said of a table from outside.
 * Errors: NOT_FOUND: there is no table; INVALID_DATA. */
int32_t arrowwood_table_stat(const char *path, arrowwood_stat *stat, arrowwood_error *error);

/* ---- values to append and to compare with ---- */

static inline arrowwood_value arrowwood_null(void) {
  arrowwood_value value;
  memset(&value, 0, sizeof value);
  return value;
}

static inline arrowwood_value arrowwood_bool(int flag) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_BOOL;
  value.as.int64 = flag != 0;
  return value;
}

static inline arrowwood_value arrowwood_int64(int64_t number) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_INT64;
  value.as.int64 = number;
  return value;
}

static inline arrowwood_value arrowwood_uint64(uint64_t number) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_UINT64;
  value.as.uint64 = number;
  return value;
}

static inline arrowwood_value arrowwood_float64(double number) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_FLOAT64;
  value.as.float64 = number;
  return value;
}

/* length bytes of UTF-8, which the value points to. */
static inline arrowwood_value arrowwood_text_of(const char *text, size_t length) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_TEXT;
  value.length = length;
  value.as.text = text;
  return value;
}

/* Text that ends in NUL, which the value points to; NULL is null. */
static inline arrowwood_value arrowwood_text(const char *text) {
  return text == NULL ? arrowwood_null() : arrowwood_text_of(text, strlen(text));
}

/* length bytes, which the value points to. */
static inline arrowwood_value arrowwood_bytes(const void *bytes, size_t length) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_BYTES;
  value.length = length;
  value.as.bytes = (const uint8_t *)bytes;
  return value;
}

/* Units since 1970-01-01 00:00:00. */
static inline arrowwood_value arrowwood_timestamp(int64_t count, enum arrowwood_unit unit) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_TIMESTAMP;
  value.unit = (int32_t)unit;
  value.as.timestamp.count = count;
  return value;
}

/* Days since 1970-01-01. */
static inline arrowwood_value arrowwood_date(int64_t days) {
  arrowwood_value value = arrowwood_null();
  value.kind = ARROWWOOD_KIND_DATE;
  value.as.int64 = days;
  return value;
}

#ifdef __cplusplus
}
#endif

#endif /* ARROWWOOD_H */
