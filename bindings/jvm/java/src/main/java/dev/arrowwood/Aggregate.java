package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Struct;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.Optional;

/**
 * A column of the result of {@link Dataset#aggregate}.
 *
 * @param name its name
 * @param function the function to compute
 * @param column the column to compute it from; {@link Function#COUNT} without one counts rows
 */
public record Aggregate(String name, Function function, Optional<String> column) {
    /** A function of the non-null values of a group. */
    public enum Function {
        /** The sum. */
        SUM(1),
        /** The mean. */
        MEAN(2),
        /** The least value. */
        MIN(3),
        /** The greatest value. */
        MAX(4),
        /** The number of values. */
        COUNT(5),
        /** The sample variance. */
        VAR(6),
        /** The standard deviation. */
        STD(7),
        /** The number of distinct values; null counts as one. */
        N_UNIQUE(9),
        /** The middle value, or the mean of the two middle values; uses 8 bytes of memory per row. */
        MEDIAN(12);

        /** The value of {@code enum arrowwood_function}. */
        final int code;

        Function(int code) {
            this.code = code;
        }
    }

    /** {@code arrowwood_aggregate}. */
    static final Struct STRUCT = new Struct(
            ADDRESS.withName("name"),
            ADDRESS.withName("column"),
            JAVA_INT.withName("function"),
            JAVA_INT.withName("reserved"));

    /**
     * Checks the arguments.
     *
     * @throws NullPointerException if one is null
     */
    public Aggregate {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(function, "function");
        Objects.requireNonNull(column, "column");
    }

    private Aggregate(Function function, String column) {
        this(column, function, Optional.of(column));
    }

    /**
     * Returns the same aggregate with another name; the default is the column's name.
     *
     * @param name the name of the result's column
     * @return a new aggregate
     */
    public Aggregate as(String name) {
        return new Aggregate(name, function, column);
    }

    /**
     * Computes the number of rows, in a column {@code count}.
     *
     * @return the aggregate
     */
    public static Aggregate count() {
        return new Aggregate("count", Function.COUNT, Optional.empty());
    }

    /**
     * Computes the number of values that aren't null.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate count(String column) {
        return new Aggregate(Function.COUNT, column);
    }

    /**
     * Computes the sum.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate sum(String column) {
        return new Aggregate(Function.SUM, column);
    }

    /**
     * Computes the mean.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate mean(String column) {
        return new Aggregate(Function.MEAN, column);
    }

    /**
     * Computes the least value.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate min(String column) {
        return new Aggregate(Function.MIN, column);
    }

    /**
     * Computes the greatest value.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate max(String column) {
        return new Aggregate(Function.MAX, column);
    }

    /**
     * Computes the sample variance.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate var(String column) {
        return new Aggregate(Function.VAR, column);
    }

    /**
     * Computes the standard deviation.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate std(String column) {
        return new Aggregate(Function.STD, column);
    }

    /**
     * Computes the number of distinct values; null counts as one.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate nUnique(String column) {
        return new Aggregate(Function.N_UNIQUE, column);
    }

    /**
     * Computes the middle value, or the mean of the two middle values.
     *
     * @param column the column's name
     * @return the aggregate
     */
    public static Aggregate median(String column) {
        return new Aggregate(Function.MEDIAN, column);
    }

    /** Returns an array of {@code arrowwood_aggregate}. */
    static MemorySegment toStructs(Native.Call call, Aggregate... aggregates) {
        MemorySegment structs = STRUCT.allocateArray(call.arena, aggregates.length);
        for (int i = 0; i < aggregates.length; i++) {
            Aggregate aggregate = aggregates[i];
            MemorySegment struct = STRUCT.element(structs, i);
            STRUCT.setAddress(struct, "name", call.text(aggregate.name));
            STRUCT.setAddress(struct, "column", aggregate.column.map(call::text).orElse(MemorySegment.NULL));
            STRUCT.setInt(struct, "function", aggregate.function.code);
        }
        return structs;
    }
}
