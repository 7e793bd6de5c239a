package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Values;
import dev.arrowwood.types.Field;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.AbstractList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.RandomAccess;

/**
 * A column of a dataset, in place. Reductions run in the library, on all cores; they ignore nulls, and their results
 * don't depend on the number of threads or batches.
 */
public final class Column {
    // Values of enum arrowwood_function that aren't functions of groups; Aggregate.Function has the others.
    static final int NULL_COUNT = 8;
    static final int ANY = 10;
    static final int ALL = 11;

    // Values of enum arrowwood_flags.
    static final int STRUCTURE_ONLY = 1;
    static final int ALIGNED = 2;

    private final Dataset dataset;
    private final long index;
    private final Field field;

    Column(Dataset dataset, long index, Field field) {
        this.dataset = dataset;
        this.index = index;
        this.field = field;
    }

    /**
     * Returns the name and type.
     *
     * @return the field
     */
    public Field field() {
        return field;
    }

    /**
     * Returns the dataset that contains the column.
     *
     * @return the dataset
     */
    public Dataset dataset() {
        return dataset;
    }

    /**
     * Returns a value.
     *
     * @param row its row, from 0
     * @return the value, as {@link Row} has it, or null
     * @throws IndexOutOfBoundsException if there is no such row
     */
    public Object get(long row) {
        return dataset.cell(row, index, field.type());
    }

    // ---- reductions ----

    /**
     * Returns the sum: a {@code Long} or {@code BigInteger} of integers and booleans, a {@code Double} of floats, a
     * {@code BigDecimal} of decimals; 0 of no values.
     *
     * @return the sum
     * @throws UnsupportedOperationException if the values have no sum, or are durations
     * @throws IllegalArgumentException if a sum of decimals overflows
     */
    public Number sum() {
        Object sum = reduce(Aggregate.Function.SUM);
        if (sum instanceof Number number) {
            return number;
        }
        throw new ArrowwoodException.Unsupported("the sum of a column of " + field.type() + " is no number");
    }

    /**
     * Returns the mean.
     *
     * @return the mean, or empty if there are no values
     * @throws UnsupportedOperationException if the type has none
     */
    public OptionalDouble mean() {
        return optional(reduce(Aggregate.Function.MEAN));
    }

    /**
     * Returns the sample variance, divided by n - 1.
     *
     * @return the variance, or empty if there are fewer than two values
     * @throws UnsupportedOperationException if the type has none
     */
    public OptionalDouble var() {
        return optional(reduce(Aggregate.Function.VAR));
    }

    /**
     * Returns the standard deviation: the square root of {@link #var}.
     *
     * @return the deviation, or empty if there are fewer than two values
     * @throws UnsupportedOperationException if the type has none
     */
    public OptionalDouble std() {
        return optional(reduce(Aggregate.Function.STD));
    }

    /**
     * Returns the least value; NaN only if there is nothing else.
     *
     * @return the value, or empty if there are none
     * @throws UnsupportedOperationException if the type has no order
     */
    public Optional<Object> min() {
        return Optional.ofNullable(reduce(Aggregate.Function.MIN));
    }

    /**
     * Returns the greatest value; NaN only if there is nothing else.
     *
     * @return the value, or empty if there are none
     * @throws UnsupportedOperationException if the type has no order
     */
    public Optional<Object> max() {
        return Optional.ofNullable(reduce(Aggregate.Function.MAX));
    }

    /**
     * Returns the number of values that are not null.
     *
     * @return the number
     */
    public long count() {
        return (long) reduce(Aggregate.Function.COUNT);
    }

    /**
     * Returns the number of values that are null.
     *
     * @return the number
     */
    public long nullCount() {
        return (long) reduce(NULL_COUNT);
    }

    /**
     * Returns the number of distinct values; null counts as one.
     *
     * @return the number
     * @throws UnsupportedOperationException if the type is nested
     */
    public long nUnique() {
        return (long) reduce(Aggregate.Function.N_UNIQUE);
    }

    /**
     * Returns whether any value of a column of booleans is true.
     *
     * @return true if one is
     * @throws UnsupportedOperationException if the column is of another type
     */
    public boolean any() {
        return (boolean) reduce(ANY);
    }

    /**
     * Returns whether no value of a column of booleans is false.
     *
     * @return true if none is
     * @throws UnsupportedOperationException if the column is of another type
     */
    public boolean all() {
        return (boolean) reduce(ALL);
    }

    /**
     * Returns an exact quantile, interpolated linearly.
     *
     * @param share 0 to 1
     * @return the quantile, or empty if all values are null or NaN
     * @throws IllegalArgumentException if the share is out of range
     * @throws UnsupportedOperationException if the type has none
     */
    public OptionalDouble quantile(double share) {
        return quantile(Native.QUANTILE, share);
    }

    /**
     * Returns a quantile of a fixed sample of 1,048,576 rows. The cost doesn't depend on the size of the column.
     *
     * @param share 0 to 1
     * @return the quantile, or empty if all values are null or NaN
     * @throws IllegalArgumentException if the share is out of range
     * @throws UnsupportedOperationException if the type has none
     */
    public OptionalDouble approxQuantile(double share) {
        return quantile(Native.APPROX_QUANTILE, share);
    }

    private OptionalDouble quantile(MethodHandle function, double share) {
        return optional(Native.call(call -> {
            call.check((int) function.invokeExact(dataset.handle(), index, share, call.out, call.error));
            return Values.read(call, call.out, dataset.owner());
        }));
    }

    private static OptionalDouble optional(Object number) {
        return number == null ? OptionalDouble.empty() : OptionalDouble.of(((Number) number).doubleValue());
    }

    private Object reduce(Aggregate.Function function) {
        return reduce(function.code);
    }

    /** Reduces the column by a function of {@code enum arrowwood_function}. */
    private Object reduce(int function) {
        return Native.call(call -> {
            call.check((int) Native.REDUCE.invokeExact(dataset.handle(), index, function, call.out, call.error));
            return Values.read(call, call.out, dataset.owner());
        });
    }

    /**
     * Counts the distinct values, most frequent first, in columns of this one's name and {@code count}.
     *
     * @return a dataset in memory
     * @throws UnsupportedOperationException if the type is nested
     */
    public Dataset valueCounts() {
        return dataset.valueCounts(index);
    }

    // ---- memory ----

    /**
     * Returns the memory of the column, batch by batch, in place: nothing is copied or checked, except that each
     * buffer is as long as the rows and the type require. Offsets, keys and views may be damaged: segments bound each
     * access. Buffers may be unaligned: read them with the {@code _UNALIGNED} layouts.
     *
     * @return an unmodifiable list, a chunk for each batch
     * @throws ArrowwoodException.InvalidData if a batch is damaged
     */
    public List<Chunk> chunks() {
        return chunks(new ChunkOption[0]);
    }

    /**
     * Returns the memory of the column, batch by batch, with more guarantees.
     *
     * @param options the guarantees
     * @return an unmodifiable list, a chunk for each batch
     * @throws ArrowwoodException.InvalidData if a batch is damaged
     */
    public List<Chunk> chunks(ChunkOption... options) {
        int flags = chunkFlags(options);
        return Native.call(call -> {
            MemorySegment first = call.arena.allocate(ADDRESS);
            MemorySegment count = call.arena.allocate(JAVA_LONG);
            MemorySegment owner = call.arena.allocate(ADDRESS);
            call.check(
                    (int) Native.CHUNKS.invokeExact(dataset.handle(), index, flags, first, count, owner, call.error));

            Arena arena = dataset.lifetime();
            // Segments of the chunks have this arena's scope, and it frees the library's array of chunks.
            Native.owned(owner.get(ADDRESS, 0), arena, Native.CHUNKS_FREE);
            return new Chunks(Chunk.table(first.get(ADDRESS, 0), count.get(JAVA_LONG, 0), arena), arena);
        });
    }

    /** Returns the options as flags of the C library, whose default is to check. */
    private static int chunkFlags(ChunkOption... options) {
        List<ChunkOption> given = Arrays.asList(options);
        int flags = 0;
        if (!given.contains(ChunkOption.CHECKED)) {
            flags |= STRUCTURE_ONLY;
        }
        if (given.contains(ChunkOption.ALIGNED)) {
            flags |= ALIGNED;
        }
        return flags;
    }

    /** Creates chunks on access. */
    private static final class Chunks extends AbstractList<Chunk> implements RandomAccess {
        private final MemorySegment table;
        private final Arena arena;

        Chunks(MemorySegment table, Arena arena) {
            this.table = table;
            this.arena = arena;
        }

        @Override
        public Chunk get(int index) {
            return Chunk.at(table, Objects.checkIndex(index, size()), arena);
        }

        @Override
        public int size() {
            return Math.toIntExact(table.byteSize() / Chunk.STRUCT.size());
        }
    }

    /**
     * Returns the column as numbers, for access by row and as a stream.
     *
     * @return a view of the column
     * @throws UnsupportedOperationException if the values aren't floats, or integers other than {@code uint64}
     */
    public DoubleColumn asDouble() {
        return new DoubleColumn(this);
    }

    /**
     * Returns the column as integers, for access by row and as a stream. Dates, times, timestamps and durations are
     * their counts of units.
     *
     * @return a view of the column
     * @throws UnsupportedOperationException if the values aren't integers
     */
    public LongColumn asLong() {
        return new LongColumn(this);
    }

    /** Returns name, type and dataset. */
    @Override
    public String toString() {
        return dataset.select((int) index).toString();
    }
}
