/**
 * What the public classes stand on: the functions of the C library, its structs, and conversions of its values. The
 * module doesn't export this package, because these functions trust the addresses that they are given.
 *
 * <p>In reading order:
 *
 * <ul>
 *   <li>{@link Library} finds the C library, {@link Struct} lays out its structs, {@link Native} calls it and throws its
 *       errors, {@link Messages} says them in Java's words.
 *   <li>{@link Owned} holds a handle that several threads use.
 *   <li>{@link SchemaReader} and {@link Fields} read schemas.
 *   <li>{@link Values} converts values, {@link Numbers} whole columns, {@link Records} rows; {@link TimeComparison} and
 *       {@link Unsigned} check arguments.
 *   <li>{@link Conditions} builds conditions, {@link RowSpliterator} traverses rows, {@link Subscription} follows tables.
 * </ul>
 */
package dev.arrowwood.internal;
