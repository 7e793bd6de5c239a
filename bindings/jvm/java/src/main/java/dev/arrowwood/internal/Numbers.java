package dev.arrowwood.internal;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import dev.arrowwood.Chunk;
import dev.arrowwood.Column;
import dev.arrowwood.DoubleColumn;
import dev.arrowwood.LongColumn;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;

/**
 * The numbers of a column by row, for {@link DoubleColumn} and {@link LongColumn}: finds the chunk of a row, and a
 * reader for the type. Chunks are called by their index among those that have rows.
 */
public final class Numbers {
    private final Column column;
    /** The column's chunks that have rows. */
    private final List<Chunk> chunks;

    // Of each chunk, what it would read from its struct again for each row.
    private final MemorySegment[] values;
    private final boolean[] isAllValid;
    private final long[] firstRows;

    private final long rowCount;

    public Numbers(Column column) {
        this.column = column;
        this.chunks =
                column.chunks().stream().filter(chunk -> chunk.rowCount() > 0).toList();
        this.values = chunks.stream().map(Chunk::values).toArray(MemorySegment[]::new);
        this.isAllValid = new boolean[values.length];
        for (int i = 0; i < isAllValid.length; i++) {
            isAllValid[i] = chunks.get(i).validity().isEmpty();
        }
        this.firstRows = chunks.stream().mapToLong(Chunk::firstRow).toArray();
        this.rowCount = chunks.isEmpty()
                ? 0
                : chunks.getLast().firstRow() + chunks.getLast().rowCount();
    }

    /** Reads number {@code index} of a buffer. */
    public interface ToLong {
        long get(MemorySegment values, long index);
    }

    /** Reads number {@code index} of a buffer. */
    public interface ToDouble {
        double get(MemorySegment values, long index);
    }

    /** Returns a reader of a column as integers; refuses other types. */
    public static ToLong longs(Field field) {
        return switch (field.type()) {
            case Type.Int(int bits, boolean signed) -> integer(bits, signed);
            case Type.Date(int bits) -> integer(bits, true);
            case Type.Time time -> integer(time.bits(), true);
            case Type.Timestamp timestamp -> integer(64, true);
            case Type.Duration duration -> integer(64, true);
            default -> throw refused(field, "integers");
        };
    }

    /** Returns a reader of a column as floating-point numbers; refuses types that aren't numbers. */
    public static ToDouble doubles(Field field) {
        return switch (field.type()) {
            case Type.Floating(int bits) when bits == 64 -> (values, i) -> values.getAtIndex(JAVA_DOUBLE_UNALIGNED, i);
            case Type.Floating(int bits) when bits == 32 -> (values, i) -> values.getAtIndex(JAVA_FLOAT_UNALIGNED, i);
            case Type.Floating half -> (values, i) -> Float.float16ToFloat(values.getAtIndex(JAVA_SHORT_UNALIGNED, i));
            case Type.Int(int bits, boolean signed)
            when bits < 64 || signed -> {
                ToLong integer = integer(bits, signed);
                yield (values, i) -> integer.get(values, i);
            }
            default -> throw refused(field, "numbers");
        };
    }

    private static ToLong integer(int bits, boolean signed) {
        return switch (bits) {
            case 8 ->
                signed
                        ? (values, i) -> values.get(JAVA_BYTE, i)
                        : (values, i) -> Byte.toUnsignedLong(values.get(JAVA_BYTE, i));
            case 16 ->
                signed
                        ? (values, i) -> values.getAtIndex(JAVA_SHORT_UNALIGNED, i)
                        : (values, i) -> Short.toUnsignedLong(values.getAtIndex(JAVA_SHORT_UNALIGNED, i));
            case 32 ->
                signed
                        ? (values, i) -> values.getAtIndex(JAVA_INT_UNALIGNED, i)
                        : (values, i) -> Integer.toUnsignedLong(values.getAtIndex(JAVA_INT_UNALIGNED, i));
            default -> (values, i) -> values.getAtIndex(JAVA_LONG_UNALIGNED, i);
        };
    }

    private static RuntimeException refused(Field field, String kind) {
        return ArrowwoodException.of(
                Code.UNSUPPORTED,
                0,
                "column '" + field.name() + "' is " + field.type() + ", which has no " + kind
                        + " in place: use get, or chunks");
    }

    public long rowCount() {
        return rowCount;
    }

    public List<Chunk> chunks() {
        return chunks;
    }

    public MemorySegment values(int chunk) {
        return values[chunk];
    }

    /** Returns the index of a row's chunk. */
    public int chunk(long row) {
        if (row < 0 || row >= rowCount) {
            throw new ArrowwoodException.RowOutOfRange(
                    "row " + row + " of column '" + column.field().name() + "', which has " + rowCount);
        }
        int index = Arrays.binarySearch(firstRows, row);
        // A row that begins no chunk is in the chunk before its insertion point, which the result negates.
        return index >= 0 ? index : -index - 2;
    }

    /** Returns the index of a row in its chunk; refuses nulls. */
    public long indexOfValid(int chunk, long row) {
        long index = row - firstRows[chunk];
        if (!isValid(chunk, index)) {
            throw new IllegalStateException(
                    "row " + row + " of column '" + column.field().name() + "' is null");
        }
        return index;
    }

    public boolean isNull(long row) {
        int chunk = chunk(row);
        return !isValid(chunk, row - firstRows[chunk]);
    }

    public boolean isValid(int chunk, long index) {
        return isAllValid[chunk] || chunks.get(chunk).isValid(index);
    }

    /** Returns the failure of a read that faulted: the library reads the row again, and names the file and cause. */
    public RuntimeException changed(int chunk, long index, InternalError cause) {
        long row = firstRows[chunk] + index;
        RuntimeException failure;
        try {
            column.get(row);
            failure = Native.transientFault();
        } catch (RuntimeException e) {
            failure = e;
        }
        failure.addSuppressed(cause);
        return failure;
    }
}
