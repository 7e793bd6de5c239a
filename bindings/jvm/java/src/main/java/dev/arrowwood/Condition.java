package dev.arrowwood;

import dev.arrowwood.internal.Conditions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * A condition on rows. A comparison with null is neither true nor false, and so is its negation. NaN is not equal to
 * anything, nor less, nor greater. Numbers compare by value, times across units, however fine; integers also stand for
 * times in the column's unit. Timestamps with a time zone compare with {@code Instant}, {@code ZonedDateTime} and
 * {@code OffsetDateTime}, those without one with {@code LocalDateTime}.
 *
 * <pre>{@code
 * import static dev.arrowwood.Condition.col;
 * ds.filter(col("price").gt(100).and(col("symbol").in("IBM", "AAPL")));
 * }</pre>
 */
public sealed interface Condition {
    /** A comparison of values. */
    enum Operator {
        /** Equal. */
        EQ("=="),
        /** Not equal. */
        NE("!="),
        /** Less. */
        LT("<"),
        /** Less or equal. */
        LE("<="),
        /** Greater. */
        GT(">"),
        /** Greater or equal. */
        GE(">=");

        private final String symbol;

        Operator(String symbol) {
            this.symbol = symbol;
        }
    }

    /**
     * Compares a column with a value.
     *
     * @param column the column's name
     * @param operator the comparison
     * @param value the value; a comparison with null is neither true nor false
     */
    record Compare(String column, Operator operator, Object value) implements Condition {
        /**
         * Checks the arguments.
         *
         * @throws NullPointerException if the column or the operator is null
         */
        public Compare {
            Objects.requireNonNull(column, "column");
            Objects.requireNonNull(operator, "operator");
        }

        @Override
        public String toString() {
            return "(" + column + " " + operator.symbol + " " + value + ")";
        }
    }

    /**
     * Tests whether a column equals one of several values.
     *
     * @param column the column's name
     * @param values the values
     */
    record In(String column, List<?> values) implements Condition {
        /**
         * Checks the arguments, and copies the values.
         *
         * @throws NullPointerException if the column or the list is null
         */
        public In {
            Objects.requireNonNull(column, "column");
            values = Collections.unmodifiableList(new ArrayList<>(values));
        }

        @Override
        public String toString() {
            return "(" + column + " in " + values + ")";
        }
    }

    /**
     * Tests whether a column is null.
     *
     * @param column the column's name
     */
    record IsNull(String column) implements Condition {
        /**
         * Checks the argument.
         *
         * @throws NullPointerException if the column is null
         */
        public IsNull {
            Objects.requireNonNull(column, "column");
        }

        @Override
        public String toString() {
            return "(" + column + " is null)";
        }
    }

    /**
     * True if both are.
     *
     * @param left one condition
     * @param right the other
     */
    record And(Condition left, Condition right) implements Condition {
        /**
         * Checks the depth.
         *
         * @throws IllegalArgumentException if conditions are nested more than 500 deep
         */
        public And {
            Conditions.checkDepth(left, right);
        }

        @Override
        public String toString() {
            return "(" + left + " & " + right + ")";
        }
    }

    /**
     * True if one of them is.
     *
     * @param left one condition
     * @param right the other
     */
    record Or(Condition left, Condition right) implements Condition {
        /**
         * Checks the depth.
         *
         * @throws IllegalArgumentException if conditions are nested more than 500 deep
         */
        public Or {
            Conditions.checkDepth(left, right);
        }

        @Override
        public String toString() {
            return "(" + left + " | " + right + ")";
        }
    }

    /**
     * True if a condition is false.
     *
     * @param condition the condition to negate
     */
    record Not(Condition condition) implements Condition {
        /**
         * Checks the depth.
         *
         * @throws IllegalArgumentException if conditions are nested more than 500 deep
         */
        public Not {
            Conditions.checkDepth(condition);
        }

        @Override
        public String toString() {
            return "~" + condition;
        }
    }

    /**
     * A column by its name, for making conditions.
     *
     * @param name the name
     */
    record Col(String name) {
        /**
         * Equal to a value.
         *
         * @param value the value
         * @return the condition
         */
        public Condition eq(Object value) {
            return new Compare(name, Operator.EQ, value);
        }

        /**
         * Not equal to a value.
         *
         * @param value the value
         * @return the condition
         */
        public Condition ne(Object value) {
            return new Compare(name, Operator.NE, value);
        }

        /**
         * Less than a value.
         *
         * @param value the value
         * @return the condition
         */
        public Condition lt(Object value) {
            return new Compare(name, Operator.LT, value);
        }

        /**
         * Less than or equal to a value.
         *
         * @param value the value
         * @return the condition
         */
        public Condition le(Object value) {
            return new Compare(name, Operator.LE, value);
        }

        /**
         * Greater than a value.
         *
         * @param value the value
         * @return the condition
         */
        public Condition gt(Object value) {
            return new Compare(name, Operator.GT, value);
        }

        /**
         * Greater than or equal to a value.
         *
         * @param value the value
         * @return the condition
         */
        public Condition ge(Object value) {
            return new Compare(name, Operator.GE, value);
        }

        /**
         * Equal to one of several values.
         *
         * @param values the values
         * @return the condition
         */
        public Condition in(Object... values) {
            return new In(name, Arrays.asList(values));
        }

        /**
         * Null.
         *
         * @return the condition
         */
        public Condition isNull() {
            return new IsNull(name);
        }
    }

    /**
     * Names a column. Whether it exists is checked when the condition is applied.
     *
     * @param name the name
     * @return the column
     */
    static Col col(String name) {
        return new Col(Objects.requireNonNull(name));
    }

    /**
     * True if both are.
     *
     * @param other the other condition
     * @return the condition
     * @throws IllegalArgumentException if conditions are nested more than 500 deep
     */
    default Condition and(Condition other) {
        return new And(this, other);
    }

    /**
     * True if one of them is.
     *
     * @param other the other condition
     * @return the condition
     * @throws IllegalArgumentException if conditions are nested more than 500 deep
     */
    default Condition or(Condition other) {
        return new Or(this, other);
    }

    /**
     * True if this one is false.
     *
     * @return the condition
     * @throws IllegalArgumentException if conditions are nested more than 500 deep
     */
    default Condition not() {
        return new Not(this);
    }
}
