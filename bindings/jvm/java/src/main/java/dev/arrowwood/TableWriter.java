package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Owned;
import dev.arrowwood.internal.Records;
import dev.arrowwood.internal.Struct;
import dev.arrowwood.internal.Unsigned;
import dev.arrowwood.internal.Values;
import dev.arrowwood.types.Field;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The single writer of a growing table. Appended rows become visible to readers, in any process, when they are
 * committed, all at once.
 *
 * <pre>{@code
 * record Tick(Instant ts, String symbol, double price) {}
 *
 * try (TableWriter writer = TableWriter.open(Path.of("ticks"), Schema.of(Tick.class),
 * WriterOptions.DEFAULT.sortedBy("ts"))) {
 *     writer.append(new Tick(Instant.now(), "IBM", 100.5));
 *     writer.commit();
 * }
 * }</pre>
 *
 * <p>Closing the writer discards rows that were not committed: an exception within {@code try} commits nothing.
 *
 * <p>Can be used by several threads, whose calls wait for each other, except {@link #waitDurable}. The collector frees
 * an unreachable writer without a commit.
 */
public final class TableWriter implements AutoCloseable {
    /** {@code arrowwood_position}. */
    static final Struct POSITION = new Struct(ADDRESS.withName("name"), JAVA_LONG.withName("value"));

    /** {@code arrowwood_commit_options}. */
    static final Struct COMMIT_OPTIONS = new Struct(
            JAVA_LONG.withName("size"),
            ADDRESS.withName("positions"),
            JAVA_LONG.withName("position_count"),
            JAVA_INT.withName("durable"),
            JAVA_INT.withName("reserved"));

    /** {@code arrowwood_writer_state}. */
    static final Struct STATE = new Struct(
            JAVA_LONG.withName("size"),
            JAVA_LONG.withName("rows"),
            JAVA_LONG.withName("committed_rows"),
            JAVA_LONG.withName("durable_rows"),
            JAVA_LONG.withName("dropped_rows"));

    /** The argument of commits that don't wait for the disk. */
    private static final int NOT_DURABLE = 0;

    private static final System.Logger LOG = System.getLogger("dev.arrowwood");

    private final Owned owned;
    private final Path path;
    private final Schema schema;

    // Used by the thread that has locked the handle.

    private final RowBuffer buffer;
    /** The class of the last appended record; null before the first. */
    private Class<?> recordType;
    /** The writers of that class's components, in the order of columns. */
    private Records.CellWriter[] cellWriters;

    private TableWriter(MemorySegment handle, Path path) {
        this.path = path;
        this.owned = new Owned(this, "writer", handle, Native.WRITER_FREE);
        this.schema = Schema.of((call, struct) -> (int) Native.WRITER_SCHEMA.invokeExact(handle, struct, call.error));
        this.buffer = new RowBuffer(schema.fields().size());
    }

    /**
     * The memory of one row's values while it is appended, reused for the next row.
     *
     * <p>Values of text and bytes point into blocks. A row that needs more than the current block gets another one, at
     * least twice as large, which the rows after it keep: so a writer soon allocates no more.
     */
    private static final class RowBuffer implements Values.ByteCopier {
        private static final int MIN_BLOCK_SIZE = 1 << 12;
        private static final int BLOCK_GROWTH = 2;

        /** An {@code arrowwood_value} for each column. */
        final MemorySegment cells;
        /** The same values, one by one. */
        final MemorySegment[] cell;

        final MemorySegment error = Native.ERROR.allocate(Arena.ofAuto());

        /** The memory for texts and bytes, of which {@link #blockUsed} bytes are in use. */
        private MemorySegment block = Arena.ofAuto().allocate(MIN_BLOCK_SIZE);

        private long blockUsed;
        /** Full blocks of this row, which must stay reachable. */
        private final List<MemorySegment> fullBlocks = new ArrayList<>();

        RowBuffer(int columnCount) {
            cells = Values.VALUE.allocateArray(Arena.ofAuto(), columnCount);
            cell = new MemorySegment[columnCount];
            for (int i = 0; i < columnCount; i++) {
                cell[i] = Values.VALUE.element(cells, i);
            }
        }

        /** Prepares the buffer for another row. */
        void clear() {
            blockUsed = 0;
            fullBlocks.clear();
        }

        @Override
        public MemorySegment copy(byte[] bytes) {
            if (bytes.length > block.byteSize() - blockUsed) {
                fullBlocks.add(block);
                block = Arena.ofAuto().allocate(Math.max(bytes.length, BLOCK_GROWTH * block.byteSize()));
                blockUsed = 0;
            }
            MemorySegment.copy(bytes, 0, block, JAVA_BYTE, blockUsed, bytes.length);
            MemorySegment copy = block.asSlice(blockUsed, bytes.length);
            blockUsed += bytes.length;
            return copy;
        }
    }

    /**
     * Opens a table for writing, or creates it.
     *
     * @param path its directory
     * @param schema its columns; an existing table must have the same
     * @param options how to write it
     * @return the writer
     * @throws IOException if the files can't be opened or created
     * @throws ArrowwoodException.Busy if another process writes the table; the message names it
     * @throws ArrowwoodException.SchemaMismatch if an existing table has other columns, naming the first difference
     * @throws UnsupportedOperationException if a type can't grow, or the file system is a network's
     */
    public static TableWriter open(Path path, Schema schema, WriterOptions options) throws IOException {
        return open(path, Optional.of(schema), options);
    }

    /**
     * Opens a table for writing, or creates it.
     *
     * @param path its directory
     * @param schema its columns; an existing table must have the same
     * @return the writer
     * @throws IOException if the files can't be opened or created
     * @throws ArrowwoodException.Busy if another process writes the table; the message names it
     * @throws ArrowwoodException.SchemaMismatch if an existing table has other columns, naming the first difference
     */
    public static TableWriter open(Path path, Schema schema) throws IOException {
        return open(path, Optional.of(schema), WriterOptions.DEFAULT);
    }

    /**
     * Opens an existing table for writing, with its schema.
     *
     * @param path its directory
     * @return the writer
     * @throws IOException if there is no table, or its files can't be opened
     * @throws ArrowwoodException.Busy if another process writes the table; the message names it
     */
    public static TableWriter open(Path path) throws IOException {
        return open(path, Optional.empty(), WriterOptions.DEFAULT);
    }

    private static TableWriter open(Path path, Optional<Schema> schema, WriterOptions options) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment struct = schema.map(Schema::struct).orElse(MemorySegment.NULL);
            call.check((int) Native.WRITER_OPEN.invokeExact(
                    call.path(path), struct, options.toStruct(call), call.out, call.error));
            return new TableWriter(call.out.get(ADDRESS, 0), path);
        });
    }

    /**
     * Returns the columns of the table.
     *
     * @return the schema
     */
    public Schema schema() {
        return schema;
    }

    // ---- rows ----

    /** Writes the cells of a row. */
    private interface Filler {
        void fill(RowBuffer buffer) throws Throwable;
    }

    /** Appends the row that {@code filler} writes. */
    private void append(Filler filler) {
        MemorySegment handle = owned.lock();
        try {
            buffer.clear();
            filler.fill(buffer);
            int errorCode = (int)
                    Native.WRITER_APPEND_ROW.invokeExact(handle, buffer.cells, (long) buffer.cell.length, buffer.error);
            if (errorCode != Native.SUCCESS) {
                throw Native.failure(buffer.error);
            }
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new ArrowwoodException.InvalidArgument("a value of the row can't be read: " + e);
        } finally {
            owned.unlock(this);
        }
    }

    /**
     * Appends a record as a row. Components are matched with columns by name; times finer than a column's unit are
     * truncated.
     *
     * @param row the record
     * @throws IllegalArgumentException if a component and a column have no counterpart, a null is in a column without
     *     nulls, a value is out of range, or a row out of order; nothing is appended then
     */
    public void append(Record row) {
        append(buffer -> {
            if (row.getClass() != recordType) {
                cellWriters = Records.of(row.getClass()).cellWriters(schema.fields());
                recordType = row.getClass();
            }
            for (int i = 0; i < cellWriters.length; i++) {
                cellWriters[i].write(row, buffer.cell[i], buffer);
            }
        });
    }

    /**
     * Appends a map from column names to values as a row; columns that it lacks are null.
     *
     * @param row the map
     * @throws IllegalArgumentException if a key is not a column's name, a null is in a column without nulls, a value is
     *     out of range or of a type that the column can't hold, or a row out of order; nothing is appended then
     */
    public void append(Map<String, ?> row) {
        List<Field> fields = schema.fields();
        row.keySet().forEach(schema::index);
        append(buffer -> {
            for (int i = 0; i < buffer.cell.length; i++) {
                Values.write(
                        buffer.cell[i],
                        row.get(fields.get(i).name()),
                        fields.get(i).type(),
                        buffer);
            }
        });
    }

    /**
     * Appends a row of values, one for each column, in the table's order. Tables with columns of lists or structs take
     * no single rows: append them as a dataset.
     *
     * @param values objects as {@link Row} has them, or null; integers also stand for times in the column's unit
     * @throws IllegalArgumentException if there are more or fewer than columns, a null is in a column without nulls, a
     *     value is out of range or of a type that the column can't hold, or a row out of order; nothing is appended
     *     then
     */
    public void appendRow(Object... values) {
        List<Field> fields = schema.fields();
        if (values.length != fields.size()) {
            throw new ArrowwoodException.InvalidArgument(
                    "a row of " + values.length + " values for a table of " + fields.size() + " columns");
        }
        append(buffer -> {
            for (int i = 0; i < buffer.cell.length; i++) {
                Values.write(buffer.cell[i], values[i], fields.get(i).type(), buffer);
            }
        });
    }

    /**
     * Appends all rows of a dataset, or none.
     *
     * @param rows the rows, whose columns are matched by name
     * @throws IllegalArgumentException if columns differ, a null is in a column without nulls, a value is out of
     *     range, or a row out of order
     * @throws ArrowwoodException.InvalidData if a value is damaged
     */
    public void append(Dataset rows) {
        run((handle, call) -> (int) Native.WRITER_APPEND_DATASET.invokeExact(handle, rows.handle(), call.error));
    }

    /**
     * Appends all rows of a {@code struct ArrowArrayStream} of Arrow's C stream interface, or none. The stream is
     * moved, and released even on failure.
     *
     * @param stream the struct
     * @throws IllegalArgumentException if the stream fails; as {@link #append(Dataset)}
     */
    public void appendStream(MemorySegment stream) {
        run((handle, call) -> (int) Native.WRITER_APPEND_STREAM.invokeExact(handle, stream, call.error));
    }

    /**
     * Appends the rows of a {@code struct ArrowArray} of Arrow's C data interface, a struct whose members are matched
     * by name, or none. The array is moved, and released even on failure; the schema remains the caller's.
     *
     * @param array the array, 80 bytes
     * @param schema its {@code struct ArrowSchema}, 72 bytes
     * @throws IllegalArgumentException as {@link #append(Dataset)}
     */
    public void appendArray(MemorySegment array, MemorySegment schema) {
        run((handle, call) -> (int) Native.WRITER_APPEND.invokeExact(handle, array, schema, call.error));
    }

    // ---- commits ----

    /** Calls the library with the writer's handle; returns an error code. */
    private interface Action {
        int run(MemorySegment handle, Native.Call call) throws Throwable;
    }

    private void run(Action action) {
        MemorySegment handle = owned.lock();
        try {
            Native.run(call -> call.check(action.run(handle, call)));
        } finally {
            owned.unlock(this);
        }
    }

    /**
     * Makes all appended rows visible to readers, atomically. Takes about a microsecond.
     *
     * @throws ArrowwoodException.Io if no row became visible
     */
    public void commit() {
        run((handle, call) -> (int) Native.WRITER_COMMIT.invokeExact(handle, NOT_DURABLE, call.error));
    }

    /**
     * Commits, and syncs to disk: the rows survive a power failure once it returns. Of several threads that commit
     * durably at the same time, one syncs for all of them.
     *
     * @throws ArrowwoodException.Io if no row became visible, or the sync failed
     */
    public void commitDurably() {
        commit();
        waitDurable();
    }

    /**
     * Commits, with named positions that are part of the commit: visible with its rows, durable with them, and the same
     * after a crash. So a producer that commits how far it has read from its source, and continues from there, neither
     * loses nor repeats a row. There may be no new rows.
     *
     * @param positions the positions that change with this commit; the others keep their values
     * @throws IllegalArgumentException if a name is empty, longer than 255 bytes or has control characters, or the
     *     table would have more than 256; then nothing is committed, and the rows remain appended
     * @throws ArrowwoodException.Io if no row became visible
     */
    public void commit(Map<String, Long> positions) {
        run((handle, call) -> {
            MemorySegment structs = POSITION.allocateArray(call.arena, positions.size());
            long count = 0;
            for (Map.Entry<String, Long> position : positions.entrySet()) {
                MemorySegment struct = POSITION.element(structs, count++);
                POSITION.setAddress(struct, "name", call.text(position.getKey()));
                POSITION.setLong(struct, "value", position.getValue());
            }

            MemorySegment options = COMMIT_OPTIONS.allocateWithSize(call.arena);
            COMMIT_OPTIONS.setAddress(options, "positions", structs);
            COMMIT_OPTIONS.setLong(options, "position_count", count);
            COMMIT_OPTIONS.setInt(options, "durable", NOT_DURABLE);
            return (int) Native.WRITER_COMMIT_WITH.invokeExact(handle, options, call.error);
        });
    }

    /**
     * Commits with named positions, and syncs to disk: rows and positions survive a power failure once it returns.
     *
     * @param positions the positions that change with this commit; the others keep their values
     * @throws IllegalArgumentException as {@link #commit(Map)}
     * @throws ArrowwoodException.Io if no row became visible, or the sync failed
     */
    public void commitDurably(Map<String, Long> positions) {
        commit(positions);
        waitDurable();
    }

    /**
     * Waits until all committed rows would survive a power failure. Other threads can append and commit meanwhile, and
     * all waiting threads share one sync.
     *
     * @throws ArrowwoodException.Io if the sync failed: the writer is unusable afterwards, close it and open the table
     *     again
     */
    public void waitDurable() {
        MemorySegment handle = owned.share();
        try {
            Native.run(call -> call.check((int) Native.WRITER_WAIT_DURABLE.invokeExact(handle, call.error)));
        } finally {
            owned.release(this);
        }
    }

    /**
     * Returns the positions of the newest commit, by name: see {@link #commit(Map)}.
     *
     * @return a new map
     */
    public Map<String, Long> positions() {
        MemorySegment handle = owned.lock();
        try {
            return positions((call, out) -> (int) Native.WRITER_POSITIONS.invokeExact(handle, out, call.error));
        } finally {
            owned.unlock(this);
        }
    }

    /** Reads the positions that a function returns as a dataset of names and values. */
    static Map<String, Long> positions(Dataset.Constructor constructor) {
        Dataset rows = Native.call(call -> Dataset.create(call, null, constructor));
        Map<String, Long> positions = new TreeMap<>();
        rows.forEach(row -> positions.put(row.getString("name"), row.getLong("position")));
        return positions;
    }

    /**
     * Syncs all committed rows to disk: they survive a power failure once it returns.
     *
     * @throws ArrowwoodException.Io if the sync failed: the writer is unusable afterwards, close it and open the table
     *     again
     */
    public void sync() {
        run((handle, call) -> (int) Native.WRITER_SYNC.invokeExact(handle, call.error));
    }

    /** Discards the rows appended since the last commit. */
    public void rollback() {
        run((handle, call) -> (int) Native.WRITER_ROLLBACK.invokeExact(handle, call.error));
    }

    /**
     * The progress of a writer. Rows are numbered from the beginning of the table.
     *
     * @param rows the number of the row after the last one appended
     * @param committedRows the number of the row after the last one committed
     * @param durableRows the number of the row after the last one that would survive a power failure
     * @param droppedRows committed rows that were lost in a system crash before the writer was opened
     */
    public record State(long rows, long committedRows, long durableRows, long droppedRows) {}

    /**
     * Returns the writer's row counts.
     *
     * @return the counts
     */
    public State progress() {
        MemorySegment handle = owned.lock();
        try {
            return Native.call(call -> readState(handle, call));
        } finally {
            owned.unlock(this);
        }
    }

    private static State readState(MemorySegment handle, Native.Call call) throws Throwable {
        MemorySegment state = STATE.allocateWithSize(call.arena);
        call.check((int) Native.WRITER_PROGRESS.invokeExact(handle, state, call.error));
        return new State(
                STATE.getLong(state, "rows"),
                STATE.getLong(state, "committed_rows"),
                STATE.getLong(state, "durable_rows"),
                STATE.getLong(state, "dropped_rows"));
    }

    /**
     * Rewrites all sealed segments as dense Arrow files; readers are not disturbed.
     *
     * @return the number of rewritten segments
     * @throws ArrowwoodException.Io if it failed; segments rewritten before remain so
     */
    public long compact() {
        return runForCount((handle, call) -> (int) Native.WRITER_COMPACT.invokeExact(
                handle, MemorySegment.NULL, MemorySegment.NULL, call.out, call.error));
    }

    /**
     * Removes the segments that contain only rows before a number. Readers that have mapped them keep them; remaining
     * rows keep their numbers.
     *
     * @param row the number of the first row to keep
     * @return the number of removed rows
     * @throws ArrowwoodException.Io if it failed
     */
    public long dropBefore(long row) {
        Unsigned.row(row);
        return runForCount(
                (handle, call) -> (int) Native.WRITER_DROP_BEFORE.invokeExact(handle, row, call.out, call.error));
    }

    private long runForCount(Action action) {
        MemorySegment handle = owned.lock();
        try {
            return Native.call(call -> {
                call.check(action.run(handle, call));
                return call.out.get(JAVA_LONG, 0);
            });
        } finally {
            owned.unlock(this);
        }
    }

    /**
     * Syncs the committed rows, and unlocks the table. Waits for a call in another thread. Does nothing the second
     * time.
     *
     * <p>Discards rows appended since the last {@link #commit() commit}, as {@link #rollback} does: a {@code try} block
     * that an exception ends never leaves half a batch. Logs their number as a warning to the {@link System.Logger}
     * called {@code dev.arrowwood}.
     *
     * @throws ArrowwoodException.Io if the sync failed; the writer is closed nevertheless
     */
    @Override
    public void close() {
        MemorySegment handle = owned.take();
        if (handle == null) {
            return;
        }
        long discarded;
        try {
            discarded = discardUncommitted(handle);
        } catch (RuntimeException | Error e) {
            // Freeing doesn't commit, as closing would.
            Native.free(Native.WRITER_FREE, handle);
            throw e;
        }
        try {
            if (discarded > 0) {
                String rows = discarded == 1 ? "1 row was" : discarded + " rows were";
                LOG.log(
                        System.Logger.Level.WARNING,
                        "{0} discarded: the writer of {1} was closed without a commit",
                        rows,
                        path);
            }
        } finally {
            // A logger of the program may throw.
            Native.run(call -> call.check((int) Native.WRITER_CLOSE.invokeExact(handle, call.error)));
        }
    }

    /** Discards the rows appended since the last commit; returns their number. */
    private static long discardUncommitted(MemorySegment handle) {
        return Native.call(call -> {
            State state = readState(handle, call);
            call.check((int) Native.WRITER_ROLLBACK.invokeExact(handle, call.error));
            return state.rows - state.committedRows;
        });
    }

    /**
     * Closes the writer without a commit or a sync. Discards the rows appended since the last commit, without a
     * warning.
     */
    public void discard() {
        MemorySegment handle = owned.take();
        if (handle != null) {
            Native.free(Native.WRITER_FREE, handle);
        }
    }
}
