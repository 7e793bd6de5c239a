#include "decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ---- */

void write_text(FILE *out, const char *text, uint64_t length) {
  uint64_t i;
  fputc('"', out);
  for (i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

void write_double(FILE *out, double number) {
  if (isfinite(number))
    fprintf(out, number == floor(number) && fabs(number) < 1e15 ? "%.1f" : "%.17g", number);
  else
    fputs("null", out);
}

void write_hex(FILE *out, const uint8_t *bytes, uint64_t length) {
  uint64_t i;
  fputs("\"0x", out);
  for (i = 0; i < length; i++) fprintf(out, "%02x", bytes[i]);
  fputc('"', out);
}

void write_time(FILE *out, const char *what, int64_t count, char unit, const char *zone, uint64_t zone_length) {
  fprintf(out, "\"%s %lld%s", what, (long long)count, unit == 's' ? "s" : unit == 'm' ? "ms" : unit == 'u' ? "us" : "ns");
  if (zone != NULL) {
    fputc(' ', out);
    fwrite(zone, 1, zone_length, out);
  }
  fputc('"', out);
}

void write_decimal(FILE *out, const uint64_t words[4], int scale) {
  uint32_t limbs[8];
  char digits[80];
  int i, length = 0, negative = (int)(words[3] >> 63);
  uint32_t carry = 1;
  for (i = 0; i < 8; i++) {
    limbs[i] = (uint32_t)(words[i / 2] >> (32 * (i % 2)));
    if (negative) {
      limbs[i] = ~limbs[i] + carry;
      carry = carry && limbs[i] == 0;
    }
  }
  do {
    uint64_t rest = 0;
    for (i = 7; i >= 0; i--) {
      rest = rest << 32 | limbs[i];
      limbs[i] = (uint32_t)(rest / 10);
      rest %= 10;
    }
    digits[length++] = (char)('0' + rest);
    for (i = 0; i < 8 && limbs[i] == 0; i++) {
    }
  } while (i < 8);
  fputs(negative ? "\"-" : "\"", out);
  while (length > 0) fputc(digits[--length], out);
  fprintf(out, "e-%d\"", scale);
}

/* ---- types ---- */

static int format_starts_with(const struct ArrowSchema *type, const char *with) {
  return strncmp(type->format, with, strlen(with)) == 0;
}

static int is(const struct ArrowSchema *type, const char *format) { return strcmp(type->format, format) == 0; }

static int decimal_scale(const struct ArrowSchema *type) { return atoi(strchr(type->format, ',') + 1); }

/* Returns the size of a value in bytes; 0 if the type has no fixed width. */
static uint64_t value_width(const struct ArrowSchema *type) {
  const char *bits;
  switch (type->format[0]) {
    case 'c': case 'C': return 1;
    case 's': case 'S': case 'e': return 2;
    case 'i': case 'I': case 'f': return 4;
    case 'l': case 'L': case 'g': return 8;
    case 'v': return 16;
    case 'w': return (uint64_t)atoll(type->format + 2);
    case 'd':
      bits = strchr(strchr(type->format, ',') + 1, ',');
      return bits == NULL ? 16 : (uint64_t)atoi(bits + 1) / 8;
    case 't':
      if (format_starts_with(type, "tdD") || is(type, "tts") || is(type, "ttm") || is(type, "tiM")) return 4;
      return is(type, "tin") ? 16 : 8;
    default: return 0;
  }
}

static int has_large_offsets(const struct ArrowSchema *type) {
  return is(type, "Z") || is(type, "U") || is(type, "+L") || is(type, "+vL");
}

static int has_validity(const struct ArrowSchema *type) {
  return !is(type, "n") && !format_starts_with(type, "+u") && !is(type, "+r");
}

/* ---- bounded loads ---- */

static int load(arrowwood_buffer buffer, uint64_t at, uint64_t width, void *into) {
  if (width == 0 || at > UINT64_MAX / width - 1 || (at + 1) * width > buffer.size) return 0;
  memcpy(into, (const uint8_t *)buffer.data + at * width, width);
  return 1;
}

static int load_offset(arrowwood_buffer buffer, uint64_t at, int is_large, uint64_t *offset) {
  int64_t large;
  int32_t small;
  if (is_large ? !load(buffer, at, 8, &large) : !load(buffer, at, 4, &small)) return 0;
  if (!is_large) large = small;
  *offset = (uint64_t)large;
  return large >= 0;
}

static int load_bit(arrowwood_buffer buffer, uint64_t at, int *bit) {
  uint8_t byte;
  if (!load(buffer, at / 8, 1, &byte)) return 0;
  *bit = byte >> (at % 8) & 1;
  return 1;
}

static int load_signed(arrowwood_buffer buffer, uint64_t at, uint64_t width, int64_t *number) {
  int8_t one;
  int16_t two;
  int32_t four;
  switch (width) {
    case 1: if (!load(buffer, at, 1, &one)) return 0; *number = one; return 1;
    case 2: if (!load(buffer, at, 2, &two)) return 0; *number = two; return 1;
    case 4: if (!load(buffer, at, 4, &four)) return 0; *number = four; return 1;
    default: return load(buffer, at, 8, number);
  }
}

static int load_unsigned(arrowwood_buffer buffer, uint64_t at, uint64_t width, uint64_t *number) {
  *number = 0; /* little-endian: the low bytes come first */
  return load(buffer, at, width, number);
}

/* ---- values ---- */

static const char *const BAD = "damaged";

/* The placeholder for a value that can't be read. */
static const char *write_unreadable(FILE *out) {
  fputs("null", out);
  return BAD;
}

static const char *bytes_at(const arrowwood_chunk *chunk, const struct ArrowSchema *type, uint64_t row,
                            const uint8_t **bytes, uint64_t *length) {
  uint64_t from, to;
  if (type->format[0] == 'v') {
    uint8_t view[16];
    uint32_t words[4];
    if (!load(chunk->values, row, 16, view)) return BAD;
    memcpy(words, view, 16);
    *length = words[0];
    if (words[0] <= 12) {
      *bytes = (const uint8_t *)chunk->values.data + row * 16 + 4;
      return NULL;
    }
    if (words[2] >= chunk->variadic_count) return BAD;
    if ((uint64_t)words[3] + words[0] > chunk->variadic[words[2]].size) return BAD;
    *bytes = (const uint8_t *)chunk->variadic[words[2]].data + words[3];
    return NULL;
  }
  if (!load_offset(chunk->offsets, row, has_large_offsets(type), &from)) return BAD;
  if (!load_offset(chunk->offsets, row + 1, has_large_offsets(type), &to)) return BAD;
  if (from > to || to > chunk->data.size) return BAD;
  *bytes = (const uint8_t *)chunk->data.data + from;
  *length = to - from;
  return NULL;
}

static const char *decode_half(FILE *out, uint16_t half) {
  int exponent = half >> 10 & 31, fraction = half & 1023;
  double number = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(fraction + 1024, exponent - 25);
  write_double(out, half >> 15 ? -number : number);
  return NULL;
}

static const char *decode_time(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  static const char *const names[] = {"time", "duration", "timestamp"};
  int64_t count, months = 0, days = 0, nanoseconds = 0;
  int32_t parts[2];
  if (is(type, "tin")) {
    if (!load(chunk->values, 2 * row, 8, parts) || !load(chunk->values, 2 * row + 1, 8, &nanoseconds)) {
      return write_unreadable(out);
    }
    fprintf(out, "\"interval %d %d %lld\"", parts[0], parts[1], (long long)nanoseconds);
    return NULL;
  }
  if (!load_signed(chunk->values, row, value_width(type), &count)) return write_unreadable(out);
  switch (type->format[1]) {
    case 'd':
      if (type->format[2] == 'm') count = (count - (count % 86400000 + 86400000) % 86400000) / 86400000;
      fprintf(out, "\"date %lld\"", (long long)count);
      return NULL;
    case 'i':
      if (type->format[2] == 'M') {
        months = count;
      } else {
        memcpy(parts, &count, 8);
        days = parts[0];
        nanoseconds = (int64_t)parts[1] * 1000000;
      }
      fprintf(out, "\"interval %lld %lld %lld\"", (long long)months, (long long)days, (long long)nanoseconds);
      return NULL;
    case 's': {
      const char *zone = type->format + 4;
      write_time(out, names[2], count, type->format[2], *zone ? zone : NULL, strlen(zone));
      return NULL;
    }
    default:
      write_time(out, names[type->format[1] == 'D'], count, type->format[2], NULL, 0);
      return NULL;
  }
}

static const char *decode_list(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  const char *failed = NULL;
  uint64_t from, to, i;
  int is_large = has_large_offsets(type);
  if (chunk->child_count < 1) return write_unreadable(out);
  if (format_starts_with(type, "+w:")) {
    uint64_t size = (uint64_t)atoll(type->format + 3);
    from = row * size;
    to = from + size;
  } else if (format_starts_with(type, "+v")) {
    if (!load_offset(chunk->offsets, row, is_large, &from) || !load_offset(chunk->sizes, row, is_large, &to))
      return write_unreadable(out);
    to += from;
  } else if (!load_offset(chunk->offsets, row, is_large, &from) || !load_offset(chunk->offsets, row + 1, is_large, &to)) {
    return write_unreadable(out);
  }
  if (from > to || to > chunk->children[0].rows) return write_unreadable(out);
  fputc('[', out);
  for (i = from; i < to && failed == NULL; i++) {
    const char *before = i > from ? "," : "";
    fputs(before, out);
    if (!is(type, "+m")) {
      failed = decode(out, type->children[0], chunk->children, i);
      continue;
    }
    fputc('[', out);
    failed = decode(out, type->children[0]->children[0], &chunk->children->children[0], i);
    fputc(',', out);
    if (failed == NULL) failed = decode(out, type->children[0]->children[1], &chunk->children->children[1], i);
    fputc(']', out);
  }
  fputc(']', out);
  return failed;
}

static const char *decode_struct(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  const char *failed = NULL;
  uint64_t i;
  fputc('{', out);
  for (i = 0; i < chunk->child_count && failed == NULL; i++) {
    if (i > 0) fputc(',', out);
    write_text(out, type->children[i]->name, strlen(type->children[i]->name));
    fputc(':', out);
    failed = decode(out, type->children[i], &chunk->children[i], row);
  }
  fputc('}', out);
  return failed;
}

static const char *decode_union(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  const char *failed, *ids = type->format + 4;
  uint64_t member, at = row;
  int8_t id;
  if (!load(chunk->values, row, 1, &id)) return write_unreadable(out);
  if (type->format[2] == 'd' && !load_offset(chunk->offsets, row, 0, &at)) return write_unreadable(out);
  for (member = 0; member < chunk->child_count; member++, ids = strchr(ids, ',') ? strchr(ids, ',') + 1 : "-1") {
    if (atoi(ids) == id) {
      fputc('{', out);
      write_text(out, type->children[member]->name, strlen(type->children[member]->name));
      fputc(':', out);
      failed = decode(out, type->children[member], &chunk->children[member], at);
      fputc('}', out);
      return failed;
    }
  }
  return write_unreadable(out);
}

static const char *decode_run(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  uint64_t low = 0, high, middle, wanted = row + chunk->run_offset;
  int64_t end;
  if (chunk->child_count < 2) return write_unreadable(out);
  for (high = chunk->children[0].rows; low < high;) {
    middle = low + (high - low) / 2;
    if (!load_signed(chunk->children[0].values, middle, value_width(type->children[0]), &end) || end < 0) {
      return write_unreadable(out);
    }
    if ((uint64_t)end <= wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return decode(out, type->children[1], &chunk->children[1], low);
}

static const char *decode_key(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  uint64_t key;
  int64_t small;
  if (chunk->dictionary == NULL) return write_unreadable(out);
  if (strchr("csil", type->format[0]) != NULL) {
    if (!load_signed(chunk->values, row, value_width(type), &small) || small < 0) return write_unreadable(out);
    key = (uint64_t)small;
  } else if (!load_unsigned(chunk->values, row, value_width(type), &key)) {
    return write_unreadable(out);
  }
  return decode(out, type->dictionary, chunk->dictionary, key);
}

static const char *decode_plain(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  uint64_t words[4] = {0, 0, 0, 0}, width = value_width(type), length = 0;
  const uint8_t *bytes = NULL;
  int64_t number;
  uint16_t half;
  float single;
  double twice;
  int bit, i;
  switch (type->format[0]) {
    case 'b':
      if (!load_bit(chunk->values, row + chunk->values_bit, &bit)) return write_unreadable(out);
      fputs(bit ? "true" : "false", out);
      return NULL;
    case 'c': case 's': case 'i': case 'l':
      if (!load_signed(chunk->values, row, width, &number)) return write_unreadable(out);
      fprintf(out, "\"%lld\"", (long long)number);
      return NULL;
    case 'C': case 'S': case 'I': case 'L':
      if (!load_unsigned(chunk->values, row, width, words)) return write_unreadable(out);
      fprintf(out, "\"%llu\"", (unsigned long long)words[0]);
      return NULL;
    case 'e': return load(chunk->values, row, 2, &half) ? decode_half(out, half) : write_unreadable(out);
    case 'f':
      if (!load(chunk->values, row, 4, &single)) return write_unreadable(out);
      write_double(out, single);
      return NULL;
    case 'g':
      if (!load(chunk->values, row, 8, &twice)) return write_unreadable(out);
      write_double(out, twice);
      return NULL;
    case 'd':
      if (!load(chunk->values, row, width, words)) return write_unreadable(out);
      if (width == 4) words[0] = (uint64_t)(int64_t)(int32_t)words[0];
      for (i = (int)((width + 7) / 8); i < 4; i++) words[i] = words[i - 1] >> 63 ? UINT64_MAX : 0;
      write_decimal(out, words, decimal_scale(type));
      return NULL;
    case 'w':
      if (width > 0 && (row + 1) * width > chunk->values.size) return write_unreadable(out);
      write_hex(out, (const uint8_t *)chunk->values.data + row * width, width);
      return NULL;
    case 't': return decode_time(out, type, chunk, row);
    default: break;
  }
  if (bytes_at(chunk, type, row, &bytes, &length) != NULL) return write_unreadable(out);
  if (strchr("uU", type->format[0]) != NULL || is(type, "vu"))
    write_text(out, (const char *)bytes, length);
  else
    write_hex(out, bytes, length);
  return NULL;
}

const char *decode(FILE *out, const struct ArrowSchema *type, const arrowwood_chunk *chunk, uint64_t row) {
  int valid;
  if (row >= chunk->rows) return write_unreadable(out);
  if (chunk->validity.data != NULL) {
    if (!load_bit(chunk->validity, row + chunk->validity_bit, &valid)) return write_unreadable(out);
    if (!valid) {
      fputs("null", out);
      return NULL;
    }
  }
  if (is(type, "n")) {
    fputs("null", out);
    return NULL;
  }
  if (type->dictionary != NULL) return decode_key(out, type, chunk, row);
  if (is(type, "+s")) return decode_struct(out, type, chunk, row);
  if (format_starts_with(type, "+u")) return decode_union(out, type, chunk, row);
  if (is(type, "+r")) return decode_run(out, type, chunk, row);
  if (type->format[0] == '+') return decode_list(out, type, chunk, row);
  return decode_plain(out, type, chunk, row);
}

/* ---- arrays ---- */

static arrowwood_buffer make_buffer(const struct ArrowArray *array, int64_t number, uint64_t skip) {
  arrowwood_buffer buffer = {NULL, 0};
  if (number < array->n_buffers && array->buffers[number] != NULL) {
    buffer.data = (const uint8_t *)array->buffers[number] + skip;
    buffer.size = UINT64_MAX; /* unknown in the C data interface */
  }
  return buffer;
}

arrowwood_chunk make_chunk(const struct ArrowSchema *type, const struct ArrowArray *array) {
  uint64_t offset = (uint64_t)array->offset, size = has_large_offsets(type) ? 8 : 4, cut = 1, i;
  int64_t next = has_validity(type) ? 1 : 0;
  arrowwood_chunk chunk, *children;
  memset(&chunk, 0, sizeof chunk);
  chunk.rows = (uint64_t)array->length;
  chunk.null_count = (uint64_t)array->null_count;
  if (has_validity(type)) {
    chunk.validity = make_buffer(array, 0, offset / 8);
    chunk.validity_bit = (uint32_t)(offset % 8);
  }
  if (is(type, "b")) {
    chunk.values = make_buffer(array, next, offset / 8);
    chunk.values_bit = (uint32_t)(offset % 8);
  } else if (value_width(type) > 0 || format_starts_with(type, "+u")) {
    chunk.values = make_buffer(array, next, offset * (format_starts_with(type, "+u") ? 1 : value_width(type)));
    if (format_starts_with(type, "+ud")) chunk.offsets = make_buffer(array, next + 1, offset * 4);
    if (type->format[0] == 'v' && array->n_buffers > 3) {
      arrowwood_buffer *variadic;
      const int64_t *sizes = (const int64_t *)array->buffers[array->n_buffers - 1];
      chunk.variadic_count = (uint64_t)array->n_buffers - 3;
      chunk.variadic = variadic = (arrowwood_buffer *)calloc(chunk.variadic_count, sizeof *variadic);
      for (i = 0; i < chunk.variadic_count; i++) {
        variadic[i].data = array->buffers[2 + i];
        variadic[i].size = (uint64_t)sizes[i];
      }
    }
  } else if (strchr("zZuU", type->format[0]) != NULL || is(type, "+l") || is(type, "+L") || is(type, "+m") ||
             format_starts_with(type, "+v")) {
    chunk.offsets = make_buffer(array, next, offset * size);
    if (format_starts_with(type, "+v")) chunk.sizes = make_buffer(array, next + 1, offset * size);
    if (type->format[0] != '+') chunk.data = make_buffer(array, next + 1, 0);
  }
  if (is(type, "+r")) chunk.run_offset = offset;
  if (format_starts_with(type, "+w:")) cut = (uint64_t)atoll(type->format + 3);
  if (array->n_children > 0) {
    chunk.child_count = (uint64_t)array->n_children;
    chunk.children = children = (arrowwood_chunk *)calloc(chunk.child_count, sizeof *children);
    for (i = 0; i < chunk.child_count; i++) {
      struct ArrowArray child = *array->children[i];
      /* The children of these types hold their rows, from the parent's offset on. */
      if (is(type, "+s") || format_starts_with(type, "+us") || format_starts_with(type, "+w:")) {
        child.offset += array->offset * (int64_t)cut;
        child.length = array->length * (int64_t)cut;
      }
      children[i] = make_chunk(type->children[i], &child);
    }
  }
  if (array->dictionary != NULL) {
    arrowwood_chunk *dictionary = (arrowwood_chunk *)calloc(1, sizeof *dictionary);
    *dictionary = make_chunk(type->dictionary, array->dictionary);
    chunk.dictionary = dictionary;
  }
  return chunk;
}

void free_chunk(arrowwood_chunk *chunk) {
  uint64_t i;
  for (i = 0; i < chunk->child_count; i++) free_chunk((arrowwood_chunk *)&chunk->children[i]);
  if (chunk->dictionary != NULL) free_chunk((arrowwood_chunk *)chunk->dictionary);
  free((void *)chunk->children);
  free((void *)chunk->dictionary);
  free((void *)chunk->variadic);
}
