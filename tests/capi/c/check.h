/* Assertions of the C tests: a failure prints a line and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <arrowwood.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks that the condition holds. */
#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);        \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

/* Checks that the call succeeds without touching the error: CALL's last argument is `&error`. */
#define OK(call)                                                                     \
  do {                                                                               \
    arrowwood_error error = {-7, -7, NULL};                                          \
    int32_t code = (call);                                                           \
    if (code != 0) {                                                                 \
      fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, (int)code,    \
              error.message);                                                        \
      exit(1);                                                                       \
    }                                                                                \
    CHECK(error.code == -7 && error.os_error == -7 && error.message == NULL);        \
  } while (0)

/* Checks that the call fails with the code, the same code in the error, and `part` in its message. */
#define FAILS(expected, part, call)                                                  \
  do {                                                                               \
    arrowwood_error error;                                                           \
    memset(&error, 0x55, sizeof error); /* functions must not read it */     \
    int32_t code = (call);                                                           \
    if (code != (expected)) {                                                        \
      fprintf(stderr, "%s:%d: %s: %d instead of %d%s%s\n", __FILE__, __LINE__, #call, \
              (int)code, (int)(expected), code ? ": " : "", code ? error.message : ""); \
      exit(1);                                                                       \
    }                                                                                \
    CHECK(error.code == code && error.message != NULL);                              \
    if (strstr(error.message, (part)) == NULL) {                                     \
      fprintf(stderr, "%s:%d: %s\n  says: %s\n  without: %s\n", __FILE__, __LINE__,  \
              #call, error.message, (part));                                         \
      exit(1);                                                                       \
    }                                                                                \
    arrowwood_error_clear(&error);                                                   \
    CHECK(error.code == 0 && error.os_error == 0 && error.message == NULL);          \
  } while (0)

#endif
