package dev.arrowwood;

import dev.arrowwood.internal.Numbers;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** A column of integers as {@code long}, in place. Obtained from {@link Column#asLong}. */
public final class LongColumn {
    private final Column column;
    private final Numbers numbers;
    private final Numbers.ToLong reader;

    LongColumn(Column column) {
        this.column = column;
        this.reader = Numbers.longs(column.field());
        this.numbers = new Numbers(column);
    }

    /**
     * Returns the number of rows.
     *
     * @return the number
     */
    public long rowCount() {
        return numbers.rowCount();
    }

    /**
     * Returns a value; one of {@code uint64} from 2^63 on is negative.
     *
     * @param row its row, from 0
     * @return the value
     * @throws IndexOutOfBoundsException if there is no such row
     * @throws IllegalStateException if it is null
     * @throws ArrowwoodException.FileChanged if the file was truncated
     */
    public long get(long row) {
        int chunk = numbers.chunk(row);
        return read(chunk, numbers.indexOfValid(chunk, row));
    }

    /** Reads the value at an index of a chunk. */
    private long read(int chunk, long index) {
        try {
            return read(numbers.values(chunk), index, Chunk.RECURSION_DEPTH);
        } catch (InternalError e) {
            throw numbers.changed(chunk, index, e);
        }
    }

    private long read(MemorySegment values, long index, int depth) {
        return depth > 0 ? read(values, index, depth - 1) : reader.get(values, index);
    }

    /**
     * Returns whether a value is null.
     *
     * @param row its row, from 0
     * @return true if it is null
     * @throws IndexOutOfBoundsException if there is no such row
     */
    public boolean isNull(long row) {
        return numbers.isNull(row);
    }

    /**
     * Returns the sum of the values that aren't null, by the library.
     *
     * @return the sum, 0 if there are no values
     * @throws ArithmeticException if it doesn't fit: {@link Column#sum} returns it then
     */
    public long sum() {
        if (column.sum() instanceof Long sum) {
            return sum;
        }
        throw new ArithmeticException("the sum of column '" + column.field().name() + "' doesn't fit in a long");
    }

    /**
     * Returns the values that aren't null.
     *
     * @return a stream, which can be parallel
     */
    public LongStream stream() {
        List<Chunk> chunks = numbers.chunks();
        return IntStream.range(0, chunks.size()).boxed().flatMapToLong(chunk -> {
            LongStream rows = LongStream.range(0, chunks.get(chunk).rowCount());
            LongStream valid =
                    chunks.get(chunk).validity().isEmpty() ? rows : rows.filter(row -> numbers.isValid(chunk, row));
            return valid.map(row -> read(chunk, row));
        });
    }

    /**
     * Returns the memory of the column, as {@link Column#chunks()}.
     *
     * @return an unmodifiable list, a chunk for each batch
     */
    public List<Chunk> chunks() {
        return column.chunks();
    }
}
