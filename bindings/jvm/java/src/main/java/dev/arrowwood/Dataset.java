package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Conditions;
import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Records;
import dev.arrowwood.internal.RowSpliterator;
import dev.arrowwood.internal.TimeComparison;
import dev.arrowwood.internal.Unsigned;
import dev.arrowwood.internal.Values;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Member;
import dev.arrowwood.types.Type;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.AbstractList;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.RandomAccess;
import java.util.Spliterators;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * An immutable table over one or many record batches, in place. Opened by {@link Arrowwood#open}.
 *
 * <p>It lives as long as the arena that it was opened in, as with {@code FileChannel.map(mode, offset, size,
 * arena)}: closing the arena unmaps the files, and later calls throw {@code IllegalStateException}. Without an arena,
 * the files are unmapped when nothing refers to the dataset, its columns or their memory any longer. Datasets derived
 * from another one, by {@link #slice} and the like, live as long as that one's arena, or on their own if there is none.
 *
 * <p>Datasets can be used by any number of threads at once, unless their arena is confined to one.
 */
public final class Dataset implements Iterable<Row> {
    // Indexes that lead from a value to its parts: see arrowwood_dataset_value.
    private static final long ENTRY_KEY = 0;
    private static final long ENTRY_VALUE = 1;
    private static final long UNION_VALUE = 0;

    /** The flags of {@link #exportStream}: values are checked, and unaligned buffers remain so. */
    private static final int NO_FLAGS = 0;

    // What toString shows.
    private static final long DISPLAYED_ROWS = 10;
    private static final long DISPLAYED_WIDTH = 100;

    private final MemorySegment handle;
    /** Frees the handle. */
    private final Arena owner;
    /** Ends the dataset and all datasets derived from it; null if the garbage collector does. */
    private final Arena arena;
    /** The result of {@link #schema()} after the first call. */
    private volatile Schema schema;

    private Dataset(MemorySegment handle, Arena owner, Arena arena) {
        this.handle = handle;
        this.owner = owner;
        this.arena = arena;
    }

    /** Calls a function of the library that stores a new handle in {@code out}; returns its error code. */
    interface Constructor {
        int call(Native.Call call, MemorySegment out) throws Throwable;
    }

    /** Returns the dataset that a function of the library creates; the collector frees it if the arena is null. */
    static Dataset create(Native.Call call, Arena arena, Constructor constructor) throws Throwable {
        if (arena != null && !arena.scope().isAlive()) {
            throw new IllegalStateException("the arena is closed");
        }
        call.check(constructor.call(call, call.out));
        return wrap(call.out.get(ADDRESS, 0), arena);
    }

    /** Wraps a handle, which the arena frees, or the collector if the arena is null. */
    static Dataset wrap(MemorySegment handle, Arena arena) {
        Arena owner = arena == null ? Arena.ofAuto() : arena;
        return new Dataset(Native.owned(handle, owner, Native.DATASET_FREE), owner, arena);
    }

    /** Returns a dataset that lives as long as this one's arena. */
    private Dataset derive(Constructor constructor) {
        return Native.call(call -> create(call, arena, constructor));
    }

    MemorySegment handle() {
        return handle;
    }

    /** Returns the arena that frees the handle, and the scope of addresses in its values. */
    Arena owner() {
        return owner;
    }

    /** Returns the arena for memory created from this dataset: a new one if the collector frees the dataset. */
    Arena lifetime() {
        return arena == null ? Arena.ofAuto() : arena;
    }

    // ---- shape ----

    /**
     * Returns the number of rows.
     *
     * @return the number
     * @throws ArrowwoodException.InvalidData if a message of a stream is damaged
     */
    public long rowCount() {
        return number(Native.ROWS);
    }

    /**
     * Returns the number of record batches.
     *
     * @return the number
     */
    public long batchCount() {
        return number(Native.BATCHES);
    }

    /**
     * Returns the number of the first row in its table: rows keep their numbers when earlier ones are dropped.
     *
     * @return the number
     */
    public long firstRow() {
        return number(Native.FIRST_ROW);
    }

    /**
     * Returns the positions of the newest commit whose rows the dataset has, by name: how far producers have read from
     * their sources. See {@link TableWriter#commit(Map)}.
     *
     * @return a new map, empty if there are none or the data is no table
     * @throws ArrowwoodException.InvalidData if the last segment is damaged
     */
    public Map<String, Long> positions() {
        return TableWriter.positions(
                (call, out) -> (int) Native.DATASET_POSITIONS.invokeExact(handle, out, call.error));
    }

    /**
     * Returns the size of the rows in their buffers, without dictionaries.
     *
     * @return bytes
     */
    public long bytes() {
        return number(Native.BYTES);
    }

    /** Calls a function of the library that returns a number. */
    private long number(MethodHandle function) {
        return Native.call(call -> {
            call.check((int) function.invokeExact(handle, call.out, call.error));
            return call.out.get(JAVA_LONG, 0);
        });
    }

    /**
     * Returns the index of the column that the table is sorted by.
     *
     * @return the index, or empty if there is none
     */
    public OptionalInt sortedBy() {
        long column = number(Native.SORTED_BY);
        return column < 0 ? OptionalInt.empty() : OptionalInt.of((int) column);
    }

    /**
     * Returns names and types of the columns.
     *
     * @return the schema
     */
    public Schema schema() {
        Schema cached = schema;
        if (cached == null) {
            cached = Schema.of((call, struct) -> (int) Native.SCHEMA.invokeExact(handle, struct, call.error));
            schema = cached;
        }
        return cached;
    }

    /**
     * The bytes of a dataset by location.
     *
     * @param mapped bytes mapped from files
     * @param copied bytes copied: decompressed, byte-swapped, or dictionaries built from deltas
     * @param resident bytes of the mapped ones that are in physical memory
     */
    public record Footprint(long mapped, long copied, long resident) {}

    /**
     * Returns the number of mapped, copied and resident bytes. Queries the system about every page.
     *
     * @return the numbers
     */
    public Footprint footprint() {
        return Native.call(call -> {
            MemorySegment mapped = call.arena.allocate(JAVA_LONG);
            MemorySegment copied = call.arena.allocate(JAVA_LONG);
            MemorySegment resident = call.arena.allocate(JAVA_LONG);
            call.check((int) Native.FOOTPRINT.invokeExact(handle, mapped, copied, resident, call.error));
            return new Footprint(mapped.get(JAVA_LONG, 0), copied.get(JAVA_LONG, 0), resident.get(JAVA_LONG, 0));
        });
    }

    // ---- rows ----

    /**
     * Reads a row, in place.
     *
     * @param row its index, from 0
     * @return the row
     * @throws IndexOutOfBoundsException if there is no such row
     * @throws ArrowwoodException.InvalidData if a value is damaged
     */
    public Row row(long row) {
        Unsigned.row(row);
        List<Field> fields = schema().fields();
        return Native.call(call -> new Row(fields, cells(call, fields, row)));
    }

    /** Reads the cell of a column with the given type. */
    Object cell(long row, long column, Type type) {
        Unsigned.row(row);
        return Native.call(call -> readValue(call, row, new long[] {column}, type));
    }

    /** Reads all cells of a row. */
    Object[] cells(Native.Call call, List<Field> fields, long row) throws Throwable {
        int count = fields.size();
        MemorySegment cells = Values.VALUE.allocateArray(call.arena, count);
        call.check((int) Native.CELLS.invokeExact(handle, row, cells, (long) count, call.error));
        Object[] objects = new Object[count];
        for (int i = 0; i < count; i++) {
            MemorySegment cell = Values.VALUE.element(cells, i);
            objects[i] = convert(call, cell, fields.get(i).type(), row, new long[] {i});
        }
        return objects;
    }

    /**
     * Converts a value of a row to a Java object. The path leads to it: the index of its column, then an index for
     * each list, map, struct or union that contains it.
     */
    private Object convert(Native.Call call, MemorySegment value, Type cellType, long row, long[] path)
            throws Throwable {
        Type type = Values.valueType(cellType);
        return switch (Values.kind(value)) {
            case Values.LIST -> new Items(row, path, size(value), itemType(type));
            case Values.MAP -> new Entries(row, path, size(value), (Type.MapOf) type);
            case Values.STRUCT -> readStruct(call, row, path, ((Type.Struct) type).members());
            case Values.UNION -> readMember(call, Values.text(call, value, owner), (Type.Union) type, row, path);
            default -> Values.read(call, value, owner);
        };
    }

    private static int size(MemorySegment value) {
        long length = Values.length(value);
        if (length > Integer.MAX_VALUE) {
            throw new ArrowwoodException.Unsupported("a value of " + length + " items is too long for a Java list");
        }
        return (int) length;
    }

    private static Type itemType(Type type) {
        return switch (type) {
            case Type.ListOf(Field item, var layout) -> item.type();
            case Type.FixedList(Field item, int size) -> item.type();
            default -> throw new ArrowwoodException.Internal("items of " + type);
        };
    }

    private Row readStruct(Native.Call call, long row, long[] path, List<Field> members) throws Throwable {
        Object[] cells = new Object[members.size()];
        for (int i = 0; i < cells.length; i++) {
            cells[i] = readValue(call, row, append(path, i), members.get(i).type());
        }
        return new Row(members, cells);
    }

    private Member readMember(Native.Call call, String name, Type.Union type, long row, long[] path) throws Throwable {
        Type inner = type.members().stream()
                .filter(field -> field.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new ArrowwoodException.Internal("a member of no name: " + name))
                .type();
        return new Member(name, readValue(call, row, append(path, UNION_VALUE), inner));
    }

    private Object readValue(Native.Call call, long row, long[] path, Type type) throws Throwable {
        MemorySegment value = Values.VALUE.allocate(call.arena);
        MemorySegment indexes = call.arena.allocateFrom(JAVA_LONG, path);
        call.check((int) Native.VALUE.invokeExact(handle, row, indexes, (long) path.length, value, call.error));
        return convert(call, value, type, row, path);
    }

    /** Returns a path with one more index. */
    private static long[] append(long[] path, long index) {
        long[] longer = Arrays.copyOf(path, path.length + 1);
        longer[path.length] = index;
        return longer;
    }

    /** Reads the items of a list on access. */
    private final class Items extends AbstractList<Object> implements RandomAccess {
        private final long row;
        private final long[] path;
        private final int size;
        private final Type itemType;

        Items(long row, long[] path, int size, Type itemType) {
            this.row = row;
            this.path = path;
            this.size = size;
            this.itemType = itemType;
        }

        @Override
        public Object get(int index) {
            long[] itemPath = append(path, Objects.checkIndex(index, size));
            return Native.call(call -> readValue(call, row, itemPath, itemType));
        }

        @Override
        public int size() {
            return size;
        }
    }

    /** Reads the entries of a map on access. */
    private final class Entries extends AbstractList<Map.Entry<Object, Object>> implements RandomAccess {
        private final long row;
        private final long[] path;
        private final int size;
        private final Type keyType;
        private final Type valueType;

        Entries(long row, long[] path, int size, Type.MapOf type) {
            this.row = row;
            this.path = path;
            this.size = size;
            this.keyType = type.key().type();
            this.valueType = type.value().type();
        }

        @Override
        public Map.Entry<Object, Object> get(int index) {
            long[] entryPath = append(path, Objects.checkIndex(index, size));
            return Native.call(call -> {
                Object key = readValue(call, row, append(entryPath, ENTRY_KEY), keyType);
                Object value = readValue(call, row, append(entryPath, ENTRY_VALUE), valueType);
                return new SimpleImmutableEntry<>(key, value);
            });
        }

        @Override
        public int size() {
            return size;
        }
    }

    /**
     * Returns all rows, and reads them one by one.
     *
     * @return a stream, which can be parallel
     */
    public Stream<Row> stream() {
        List<Field> fields = schema().fields();
        return rows(cells -> new Row(fields, cells));
    }

    /**
     * Returns all rows as records, whose components are matched with columns by name.
     *
     * @param <R> the record class
     * @param type the record class
     * @return a stream, which can be parallel
     * @throws IllegalArgumentException if a component has no column; the stream throws it if one can't hold its cell
     */
    public <R extends Record> Stream<R> stream(Class<R> type) {
        Records<R> records = Records.of(type);
        int[] columns = records.columns(schema().fields());
        return rows(cells -> records.read(columns, cells));
    }

    private <T> Stream<T> rows(Function<Object[], T> fromCells) {
        List<Field> fields = schema().fields();
        LongFunction<T> read = row -> fromCells.apply(Native.call(call -> cells(call, fields, row)));
        return StreamSupport.stream(new RowSpliterator<>(read, 0, rowCount()), false);
    }

    @Override
    public Iterator<Row> iterator() {
        return Spliterators.iterator(stream().spliterator());
    }

    // ---- columns ----

    /**
     * Returns a column.
     *
     * @param name its name
     * @return the column
     * @throws IllegalArgumentException if no column or several columns have the name
     */
    public Column column(String name) {
        return column(schema().index(name));
    }

    /**
     * Returns a column.
     *
     * @param index its index, from 0
     * @return the column
     * @throws IllegalArgumentException if there is no such column
     */
    public Column column(int index) {
        List<Field> fields = schema().fields();
        if (index < 0 || index >= fields.size()) {
            throw new ArrowwoodException.ColumnNotFound("no column " + index + "; there are " + fields.size());
        }
        return new Column(this, index, fields.get(index));
    }

    /**
     * Returns all columns.
     *
     * @return an unmodifiable list
     */
    public List<Column> columns() {
        return IntStream.range(0, schema().fields().size())
                .mapToObj(this::column)
                .toList();
    }

    // ---- other datasets ----

    /**
     * Returns the same rows with another lifetime.
     *
     * @param arena the arena that ends it
     * @return a dataset
     */
    public Dataset in(Arena arena) {
        return Native.call(
                call -> create(call, arena, (c, out) -> (int) Native.CLONE.invokeExact(handle, out, c.error)));
    }

    /**
     * Selects columns.
     *
     * @param names their names, in the order of the result
     * @return a dataset
     * @throws IllegalArgumentException if no column or several columns have a name
     */
    public Dataset select(String... names) {
        return derive((call, out) -> (int) Native.SELECT_NAMES.invokeExact(
                handle, call.texts(List.of(names)), (long) names.length, out, call.error));
    }

    /**
     * Selects columns.
     *
     * @param columns their indexes, in the order of the result
     * @return a dataset
     * @throws IllegalArgumentException if there is no such column
     */
    public Dataset select(int... columns) {
        for (int column : columns) {
            // Throws if there is no such column.
            column(column);
        }
        long[] indexes = Arrays.stream(columns).asLongStream().toArray();
        return derive((call, out) -> (int) Native.SELECT.invokeExact(
                handle, call.arena.allocateFrom(JAVA_LONG, indexes), (long) indexes.length, out, call.error));
    }

    /**
     * Selects rows, or as many of them as there are.
     *
     * @param start the first row
     * @param rows the number of rows
     * @return a dataset
     * @throws IndexOutOfBoundsException if a number is negative
     */
    public Dataset slice(long start, long rows) {
        if (start < 0 || rows < 0) {
            throw new ArrowwoodException.RowOutOfRange(
                    "rows " + start + " to " + start + " + " + rows + ": less than 0");
        }
        return derive((call, out) -> (int) Native.SLICE.invokeExact(handle, start, rows, out, call.error));
    }

    /**
     * Selects the first rows.
     *
     * @param rows the number of rows
     * @return a dataset
     */
    public Dataset head(long rows) {
        return slice(0, rows);
    }

    /**
     * Selects the last rows.
     *
     * @param rows the number of rows
     * @return a dataset
     */
    public Dataset tail(long rows) {
        return slice(Math.max(0, rowCount() - rows), rows);
    }

    /**
     * Concatenates datasets without copying.
     *
     * @param datasets one or more; the result lives as long as the first
     * @return a dataset
     * @throws IllegalArgumentException if schemas differ, naming the first difference, or there are no datasets
     */
    public static Dataset concat(List<Dataset> datasets) {
        if (datasets.isEmpty()) {
            throw new ArrowwoodException.InvalidArgument("there are no datasets to concatenate");
        }
        return datasets.getFirst().derive((call, out) -> {
            MemorySegment handles = call.arena.allocate(ADDRESS, datasets.size());
            for (int i = 0; i < datasets.size(); i++) {
                // Clones, because an address stored in memory doesn't keep its dataset alive.
                handles.setAtIndex(ADDRESS, i, datasets.get(i).in(call.arena).handle);
            }
            return (int) Native.CONCAT.invokeExact(handles, (long) datasets.size(), out, call.error);
        });
    }

    /**
     * Returns a dataset that includes the rows committed since; the same rows if there are none, or if the data can't
     * grow. This dataset doesn't change.
     *
     * @return a dataset
     */
    public Dataset refresh() {
        return Native.retry(
                call -> create(call, arena, (c, out) -> (int) Native.REFRESH.invokeExact(handle, out, c.error)));
    }

    /**
     * Copies rows by their numbers, in the given order.
     *
     * @param rows the numbers; negative ones count from the end
     * @return a dataset in memory
     * @throws IndexOutOfBoundsException naming the first number without a row
     */
    public Dataset take(long... rows) {
        return derive((call, out) -> (int) Native.TAKE.invokeExact(
                handle, call.arena.allocateFrom(JAVA_LONG, rows), (long) rows.length, out, call.error));
    }

    /**
     * Copies distinct random rows, in the order drawn.
     *
     * @param rows the number of rows
     * @param seed equal seeds give equal samples
     * @return a dataset in memory
     * @throws IllegalArgumentException if there are fewer rows
     */
    public Dataset sample(long rows, long seed) {
        Unsigned.count("rows", rows);
        return derive((call, out) -> (int) Native.SAMPLE.invokeExact(handle, rows, seed, out, call.error));
    }

    /**
     * Shuffles all rows: a view, which copies nothing until columns are used as a whole.
     *
     * @param seed equal seeds give equal orders
     * @return a dataset
     */
    public Dataset shuffle(long seed) {
        return derive((call, out) -> (int) Native.SHUFFLE.invokeExact(handle, seed, out, call.error));
    }

    /**
     * Copies the rows for which a condition is true, in order. If the condition bounds the column that the table is
     * sorted by, reads only the rows within these bounds.
     *
     * @param condition such as {@code col("price").gt(100)}
     * @return a dataset in memory
     * @throws IllegalArgumentException if a column isn't there, or can't be compared with a value of that kind
     */
    public Dataset filter(Condition condition) {
        return derive((call, out) -> (int) Native.FILTER.invokeExact(
                handle, Conditions.build(call, condition, schema().fields()), out, call.error));
    }

    /**
     * Selects the rows whose value in the column that the table is sorted by is between two others, both included, by
     * binary search. Values are compared as by {@link #filter}.
     *
     * @param low the least value; an integer also stands for a time in the column's unit
     * @param high the greatest value
     * @return a dataset
     * @throws IllegalArgumentException if the dataset isn't of one sorted table, or a value is of another type
     */
    public Dataset between(Object low, Object high) {
        OptionalInt column = sortedBy();
        Type type =
                column.isPresent() ? schema().fields().get(column.getAsInt()).type() : null;
        return derive((call, out) -> {
            MemorySegment lowValue = Values.VALUE.allocate(call.arena);
            MemorySegment highValue = Values.VALUE.allocate(call.arena);
            Values.writeCompared(lowValue, low, type, TimeComparison.Side.ABOVE, call::copy);
            Values.writeCompared(highValue, high, type, TimeComparison.Side.BELOW, call::copy);
            return (int) Native.BETWEEN.invokeExact(handle, lowValue, highValue, out, call.error);
        });
    }

    /**
     * Aggregates groups of rows with equal values, in one pass. The result has a row for each group, in order of first
     * appearance: the columns {@code by}, then the aggregates.
     *
     * @param by names of the columns to group by; all rows are one group if there are none
     * @param aggregates such as {@code Aggregate.mean("price")}
     * @return a dataset in memory
     * @throws IllegalArgumentException if a column isn't there, a sum overflows, or two columns would have one name
     * @throws UnsupportedOperationException if a type can't be grouped, or has no such aggregate
     */
    public Dataset aggregate(List<String> by, Aggregate... aggregates) {
        return aggregate(by, Optional.empty(), aggregates);
    }

    /**
     * Aggregates groups of the rows for which a condition is true.
     *
     * @param by names of the columns to group by; all rows are one group if there are none
     * @param where the condition, or empty for all rows
     * @param aggregates such as {@code Aggregate.mean("price")}
     * @return a dataset in memory
     * @throws IllegalArgumentException as {@link #aggregate(List, Aggregate...)}
     */
    public Dataset aggregate(List<String> by, Optional<Condition> where, Aggregate... aggregates) {
        return derive((call, out) -> {
            MemorySegment condition =
                    where.isPresent() ? Conditions.build(call, where.get(), schema().fields()) : MemorySegment.NULL;
            return (int) Native.AGGREGATE.invokeExact(
                    handle,
                    call.texts(by),
                    (long) by.size(),
                    condition,
                    Aggregate.toStructs(call, aggregates),
                    (long) aggregates.length,
                    out,
                    call.error);
        });
    }

    /**
     * Describes each column: rows for count, null_count, mean, std, min, 25%, 50%, 75% and max.
     *
     * @return a dataset in memory
     */
    public Dataset describe() {
        return derive((call, out) -> (int) Native.DESCRIBE.invokeExact(handle, out, call.error));
    }

    /**
     * Copies all rows into one record batch in memory, on all cores.
     *
     * @return a dataset in memory
     * @throws UnsupportedOperationException if the dictionaries of the batches can't be unified
     */
    public Dataset collect() {
        return derive((call, out) -> (int) Native.COLLECT.invokeExact(handle, out, call.error));
    }

    /**
     * Lists the IPC messages of the files in order, a row for each: kind, offset, metadata_offset, metadata_length,
     * body_offset, body_length, version, rows, dictionary, is_delta, compression, fields, nodes, buffers, metadata.
     *
     * @return a dataset in memory
     * @throws UnsupportedOperationException if the rows are in memory
     */
    public Dataset messages() {
        return derive((call, out) -> (int) Native.MESSAGES.invokeExact(handle, out, call.error));
    }

    /** Counts the values of a column. */
    Dataset valueCounts(long column) {
        return derive((call, out) -> (int) Native.VALUE_COUNTS.invokeExact(handle, column, out, call.error));
    }

    // ---- checks, output and following ----

    /**
     * Checks all values.
     *
     * @throws ArrowwoodException.InvalidData naming path, batch, column and row
     */
    public void validate() {
        Native.run(call -> call.check(
                (int) Native.VALIDATE.invokeExact(handle, MemorySegment.NULL, MemorySegment.NULL, call.error)));
    }

    /**
     * Writes an Arrow IPC file or stream, replacing an existing file atomically.
     *
     * @param path the file to write
     * @param options the format
     * @throws IOException if it can't be written
     * @throws ArrowwoodException.InvalidData if a value is damaged
     */
    public void write(Path path, WriteOptions options) throws IOException {
        Native.callOnPath(call -> {
            call.check(
                    (int) Native.WRITE.invokeExact(handle, call.path(path), options.toStruct(call.arena), call.error));
            return null;
        });
    }

    /**
     * Writes an Arrow IPC file, replacing an existing file atomically.
     *
     * @param path the file to write
     * @throws IOException if it can't be written
     * @throws ArrowwoodException.InvalidData if a value is damaged
     */
    public void write(Path path) throws IOException {
        write(path, WriteOptions.FILE);
    }

    /**
     * Follows the table: returns its rows from a number on, and waits for later commits.
     *
     * @param start the number of the first row; -1 for the next one committed
     * @return a follower
     * @throws IllegalArgumentException if the dataset is not a whole table
     * @throws ArrowwoodException.RowOutOfRange if rows from {@code start} on were dropped, or the table ends before
     *     {@code start}; {@link Follow#next} throws it for rows that were dropped before they were read
     */
    public Follow follow(long start) {
        return new Follow(this, start);
    }

    /**
     * Exports all batches as a {@code struct ArrowArrayStream} of Arrow's C stream interface. Buffers are shared with
     * the mapping; values are checked batch by batch. The caller releases the stream and its arrays, which keep what
     * they need.
     *
     * @param stream the struct to fill, 40 bytes
     */
    public void exportStream(MemorySegment stream) {
        Native.run(call -> call.check((int) Native.STREAM.invokeExact(handle, NO_FLAGS, stream, call.error)));
    }

    /**
     * Formats the dataset as a table: its first and last rows.
     *
     * @param rows the maximum number of rows; 0 for 10
     * @param width the maximum number of characters in a line; 0 for 100
     * @return lines of text
     */
    public String display(long rows, long width) {
        Unsigned.count("rows", rows);
        Unsigned.count("width", width);
        return Native.call(call -> {
            call.check((int) Native.DISPLAY.invokeExact(handle, rows, width, call.out, call.error));
            return call.takeText();
        });
    }

    /** Returns {@code display(10, 100)}. */
    @Override
    public String toString() {
        return display(DISPLAYED_ROWS, DISPLAYED_WIDTH);
    }

    /**
     * Returns the only row.
     *
     * @return the row
     * @throws NoSuchElementException if there isn't exactly one
     */
    public Row only() {
        long rows = rowCount();
        if (rows != 1) {
            throw new NoSuchElementException("there are " + rows + " rows, not one");
        }
        return row(0);
    }
}
