package dev.arrowwood;

/** Numbers of rows, which have no sign in the library: a negative one would be a very large one there. */
final class Unsigned {
    private Unsigned() {}

    /** Returns the number of a row, unless it is negative. */
    static long row(long row) {
        if (row < 0) {
            throw new ArrowwoodException.RowOutOfRange("row " + row + ": less than 0");
        }
        return row;
    }

    /** Returns how many there are of what {@code name} says, unless that is negative. */
    static long count(String name, long count) {
        if (count < 0) {
            throw new ArrowwoodException.InvalidArgument(name + ": " + count + " is less than 0");
        }
        return count;
    }
}
