/**
 * What the public classes stand on: the functions of the C library, its structs, and conversions of its values. The
 * module doesn't export this package, because these functions trust the addresses that they are given.
 */
package dev.arrowwood.internal;
