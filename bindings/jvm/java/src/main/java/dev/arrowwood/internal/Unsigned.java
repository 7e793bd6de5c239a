package dev.arrowwood.internal;

import dev.arrowwood.ArrowwoodException;

/** Refuses negative row numbers and counts, which the library would read as very large unsigned ones. */
public final class Unsigned {
    private Unsigned() {}

    /** Returns the number of a row, unless it is negative. */
    public static long row(long row) {
        if (row < 0) {
            throw new ArrowwoodException.RowOutOfRange("row " + row + ": less than 0");
        }
        return row;
    }

    /** Returns the count, unless it is negative; {@code name} names the parameter in the message. */
    public static long count(String name, long count) {
        if (count < 0) {
            throw new ArrowwoodException.InvalidArgument(name + ": " + count + " is less than 0");
        }
        return count;
    }
}
