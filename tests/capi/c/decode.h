/* Decodes Arrow arrays, as every consumer of the C data interface and of chunks has to, according to the Arrow Columnar
 * Format. Each access is checked against the length of its buffer, as ARROWWOOD_STRUCTURE_ONLY requires. */
#ifndef DECODE_H
#define DECODE_H

#include <arrowwood.h>

#include <stdio.h>

/* Writes row `row` of `chunk`, an array of type `type`, in the spelling of examples/samples. Returns NULL, or the word that
 * it wrote in place of a value that can't be read. */
const char *decode(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row);

/* Returns an array as a chunk, to be freed with free_chunk. Lengths of buffers follow from the type and the rows, or are
 * UINT64_MAX if they don't. */
arrowwood_chunk make_chunk(const struct ArrowSchema *type, const struct ArrowArray *array);
void free_chunk(arrowwood_chunk *chunk);

/* Writes a text as JSON. */
void write_text(FILE *out, const char *text, uint64_t length);
/* Writes a number as JSON, with enough digits to read it back exactly. */
void write_double(FILE *out, double number);
/* Writes a decimal. The lowest word is first. */
void write_decimal(FILE *out, const uint64_t words[4], int scale);
void write_hex(FILE *out, const uint8_t *bytes, uint64_t length);
void write_time(FILE *out, const char *what, int64_t count, char unit, const char *zone, uint64_t zone_length);

#endif
