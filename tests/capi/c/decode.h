/* Reads Arrow arrays by hand: what every consumer of the C data interface and of chunk tables has to do, written from the
 * Arrow Columnar Format. Each access is bounded, as ARROWWOOD_STRUCTURE_ONLY asks for. */
#ifndef DECODE_H
#define DECODE_H

#include <arrowwood.h>

#include <stdio.h>

/* Writes row `row` of `chunk`, an array of type `type`, in the spelling of examples/samples. What can't be read is
 * written as the word that is returned; NULL if all could be. */
const char *decode(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row);

/* An array as a chunk whose buffers are as long as the type and the rows ask for, or of unknown length (UINT64_MAX). What
 * it is made of is freed by free_chunk. */
arrowwood_chunk chunk_of(const struct ArrowSchema *type, const struct ArrowArray *array);
void free_chunk(arrowwood_chunk *chunk);

/* A text as JSON. */
void write_text(FILE *out, const char *text, uint64_t length);
/* A number as JSON, so that it can be read again as the same. */
void write_double(FILE *out, double number);
/* A decimal, whose words come low ones first. */
void write_decimal(FILE *out, const uint64_t words[4], int scale);
void write_hex(FILE *out, const uint8_t *bytes, uint64_t length);
void write_time(FILE *out, const char *what, int64_t count, char unit, const char *zone, uint64_t zone_length);

#endif
