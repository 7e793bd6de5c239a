package dev.arrowwood;

import dev.arrowwood.internal.Fields;
import dev.arrowwood.internal.Records;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Interval;
import dev.arrowwood.types.Member;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.AbstractMap;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The cells of a row, or the members of a struct. Immutable, and independent of the dataset, except for lists and maps,
 * whose items are read on access.
 *
 * <p>Cells are Java objects: {@code Boolean}; {@code Long} of integers, {@code BigInteger} from 2^63 on;
 * {@code Float}, {@code Double}, {@code BigDecimal}; {@code String}, {@code byte[]}, {@code UUID}; {@code LocalDate},
 * {@code LocalTime}, {@code LocalDateTime}, {@code Instant} of timestamps with a time zone, {@code Duration},
 * {@link Interval}; {@code Long}, the count of units, of a time that these can't represent, such as 24:00;
 * {@code List}, a {@code List} of {@code Map.Entry} of maps, {@code Row} of structs, {@link Member} of unions; null.
 */
public final class Row {
    private final List<Field> fields;
    private final Object[] cells;

    Row(List<Field> fields, Object[] cells) {
        this.fields = fields;
        this.cells = cells;
    }

    /**
     * Returns the number of cells.
     *
     * @return the number of columns
     */
    public int size() {
        return cells.length;
    }

    /**
     * Returns a cell.
     *
     * @param column the column's index, from 0
     * @return the value, or null
     * @throws IndexOutOfBoundsException if there is no such column
     */
    public Object get(int column) {
        return cells[Objects.checkIndex(column, cells.length)];
    }

    /**
     * Returns a cell.
     *
     * @param column the column's name
     * @return the value, or null
     * @throws IllegalArgumentException if no column or several columns have the name
     */
    public Object get(String column) {
        return cells[Fields.index(fields, column)];
    }

    /**
     * Returns whether a cell is null.
     *
     * @param column the column's name
     * @return true if it is null
     */
    public boolean isNull(String column) {
        return get(column) == null;
    }

    /**
     * Returns a number.
     *
     * @param column the column's name
     * @return the nearest {@code double}
     * @throws IllegalStateException if the cell is null, or not a number
     */
    public double getDouble(String column) {
        return as(Number.class, column).doubleValue();
    }

    /**
     * Returns an integer.
     *
     * @param column the column's name
     * @return the number
     * @throws IllegalStateException if the cell is null, or not an integer of at most 64 bits
     */
    public long getLong(String column) {
        return as(Long.class, column);
    }

    /**
     * Returns a flag.
     *
     * @param column the column's name
     * @return the flag
     * @throws IllegalStateException if the cell is null, or not a flag
     */
    public boolean getBoolean(String column) {
        return as(Boolean.class, column);
    }

    /**
     * Returns text.
     *
     * @param column the column's name
     * @return the text
     * @throws IllegalStateException if the cell is null, or not text
     */
    public String getString(String column) {
        return as(String.class, column);
    }

    /**
     * Returns a point in time.
     *
     * @param column the column's name
     * @return the time; of a timestamp without a time zone, as if it were UTC
     * @throws IllegalStateException if the cell is null, or not a timestamp
     */
    public Instant getInstant(String column) {
        return get(column) instanceof LocalDateTime local ? local.toInstant(ZoneOffset.UTC) : as(Instant.class, column);
    }

    private <T> T as(Class<T> type, String column) {
        Object cell = get(column);
        if (!type.isInstance(cell)) {
            String actual = cell == null ? "null" : "a " + cell.getClass().getSimpleName();
            throw new IllegalStateException(
                    "column '" + column + "' is " + actual + " in this row, not a " + type.getSimpleName());
        }
        return type.cast(cell);
    }

    /**
     * Converts the row to a record, whose components are matched with columns by name.
     *
     * @param <R> the record class
     * @param type the record class
     * @return a record
     * @throws IllegalArgumentException if a component has no column, or can't hold its cell
     */
    public <R extends Record> R to(Class<R> type) {
        return Records.of(type).read(fields, cells);
    }

    /**
     * Returns the cells by the names of their columns, in order.
     *
     * @return a new map
     */
    public Map<String, Object> asMap() {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < cells.length; i++) {
            map.put(fields.get(i).name(), cells[i]);
        }
        return map;
    }

    /**
     * Returns the cells in order.
     *
     * @return a new array
     */
    public Object[] toArray() {
        return cells.clone();
    }

    /**
     * Returns the names and types of the cells.
     *
     * @return an unmodifiable list
     */
    public List<Field> fields() {
        return fields;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Row row
                && Arrays.deepEquals(row.cells, cells)
                && names(row.fields).equals(names(fields));
    }

    @Override
    public int hashCode() {
        return Arrays.deepHashCode(cells);
    }

    private static List<String> names(List<Field> fields) {
        return fields.stream().map(Field::name).toList();
    }

    /** Returns {@code {symbol=IBM, price=100.5}}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("{");
        for (int i = 0; i < cells.length; i++) {
            text.append(i > 0 ? ", " : "")
                    .append(new AbstractMap.SimpleEntry<>(fields.get(i).name(), printable(cells[i])));
        }
        return text.append('}').toString();
    }

    private static Object printable(Object cell) {
        return cell instanceof byte[] bytes ? "0x" + HexFormat.of().formatHex(bytes) : cell;
    }
}
