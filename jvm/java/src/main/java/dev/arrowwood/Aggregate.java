package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.MemorySegment;
import java.util.Optional;

/**
 * A column of the result of {@link Dataset#aggregate}.
 *
 * @param name its name
 * @param function the function to compute
 * @param column the column that it is computed of; empty with {@link Function#COUNT} counts rows
 */
public record Aggregate(String name, Function function, Optional<String> column) {
    /** A function of the non-null values of a group. */
    public enum Function {
        /** The sum. */
        SUM(1),
        /** The mean. */
        MEAN(2),
        /** The least. */
        MIN(3),
        /** The greatest. */
        MAX(4),
        /** How many there are. */
        COUNT(5),
        /** The sample variance. */
        VAR(6),
        /** The standard deviation. */
        STD(7),
        /** How many distinct values there are; null is one. */
        N_UNIQUE(9),
        /** The value in the middle, or the mean of the two there; keeps 8 bytes a row. */
        MEDIAN(12);

        /** Its number in {@code arrowwood_function}. */
        final int code;

        Function(int code) {
            this.code = code;
        }
    }

    private static final long SIZE = 24;

    private Aggregate(Function function, String column) {
        this(column, function, Optional.of(column));
    }

    /**
     * Returns the same with another name; by default it is that of the column.
     *
     * @param other the name
     * @return an aggregate
     */
    public Aggregate as(String other) {
        return new Aggregate(other, function, column);
    }

    /**
     * The number of rows, in a column {@code count}.
     *
     * @return an aggregate
     */
    public static Aggregate count() {
        return new Aggregate("count", Function.COUNT, Optional.empty());
    }

    /**
     * The number of values that aren't null.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate count(String column) {
        return new Aggregate(Function.COUNT, column);
    }

    /**
     * The sum.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate sum(String column) {
        return new Aggregate(Function.SUM, column);
    }

    /**
     * The mean.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate mean(String column) {
        return new Aggregate(Function.MEAN, column);
    }

    /**
     * The least value.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate min(String column) {
        return new Aggregate(Function.MIN, column);
    }

    /**
     * The greatest value.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate max(String column) {
        return new Aggregate(Function.MAX, column);
    }

    /**
     * The sample variance.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate var(String column) {
        return new Aggregate(Function.VAR, column);
    }

    /**
     * The standard deviation.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate std(String column) {
        return new Aggregate(Function.STD, column);
    }

    /**
     * The number of distinct values; null is one.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate nUnique(String column) {
        return new Aggregate(Function.N_UNIQUE, column);
    }

    /**
     * The value in the middle, or the mean of the two there.
     *
     * @param column the column's name
     * @return an aggregate
     */
    public static Aggregate median(String column) {
        return new Aggregate(Function.MEDIAN, column);
    }

    /** An array of {@code arrowwood_aggregate}. */
    static MemorySegment structs(Native.Call call, Aggregate... aggregates) {
        MemorySegment structs = call.arena.allocate(Math.max(1, aggregates.length) * SIZE, 8);
        for (int i = 0; i < aggregates.length; i++) {
            structs.set(ADDRESS, i * SIZE, call.text(aggregates[i].name));
            structs.set(
                    ADDRESS, i * SIZE + 8, aggregates[i].column.map(call::text).orElse(MemorySegment.NULL));
            structs.set(JAVA_INT, i * SIZE + 16, aggregates[i].function.code);
        }
        return structs;
    }
}
