package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Struct;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Opens Arrow data of any size in place, in microseconds.
 *
 * <pre>{@code
 * Dataset ds = Arrowwood.open(Path.of("prices.arrow"));
 * ds.rowCount();
 * ds.row(0).getDouble("price");
 * ds.column("price").mean();
 * }</pre>
 *
 * <p>Files must not be rewritten while they are open; growing them, or replacing them by a rename, is fine. Methods
 * throw {@link ArrowwoodException.FileChanged} when they notice a change.
 *
 * <p>All exceptions are an {@link ArrowwoodException}, except {@code NullPointerException}, and the JDK's own
 * exceptions for an arena that is closed or belongs to another thread.
 */
public final class Arrowwood {
    /** {@code arrowwood_csv_options}. */
    static final Struct CSV_OPTIONS = new Struct(
            JAVA_LONG.withName("size"),
            ADDRESS.withName("schema"),
            ADDRESS.withName("dictionary"),
            JAVA_LONG.withName("dictionary_count"),
            JAVA_INT.withName("delimiter"),
            JAVA_INT.withName("reserved"));

    /** The alignment in bytes that Arrow recommends, with which no buffer needs a copy. */
    private static final long RECOMMENDED_ALIGNMENT = 64;

    private Arrowwood() {}

    /**
     * Returns the version of the library.
     *
     * @return such as {@code 0.1.0}
     */
    public static String version() {
        try {
            return Native.string((MemorySegment) Native.VERSION.invokeExact());
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Keeps the library from installing its SIGBUS handler, for processes whose own handler must not change. Reading a
     * page of a truncated file then ends in the JVM's {@code InternalError}, or ends the process, instead of
     * {@link ArrowwoodException.FileChanged}. Call it before opening the first file. Setting
     * {@code ARROWWOOD_SIGBUS=off} in the environment has the same effect.
     *
     * @throws ArrowwoodException.Busy if a file was opened before
     */
    public static void leaveSigbusAlone() {
        Native.run(call -> call.check((int) Native.LEAVE_SIGBUS_ALONE.invokeExact(call.error)));
    }

    /**
     * Opens an Arrow IPC file or stream, a table's directory, a directory of {@code *.arrow} files, or all files that
     * match a glob. Reads metadata only. The collector unmaps it.
     *
     * @param path the path
     * @param options how to open it
     * @return the dataset
     * @throws java.nio.file.NoSuchFileException if there is no such file
     * @throws IOException if it can't be opened
     * @throws ArrowwoodException.InvalidData saying what the file looks like instead
     * @throws IllegalArgumentException if several files differ in their schemas
     */
    public static Dataset open(Path path, ReadOption... options) throws IOException {
        return openIn(path, null, options);
    }

    /**
     * Opens data that lives as long as an arena, as with {@code FileChannel.map(mode, offset, size, arena)}.
     *
     * @param path the path
     * @param arena the arena that ends the dataset, and everything made from it
     * @param options how to open it
     * @return the dataset
     * @throws java.nio.file.NoSuchFileException if there is no such file
     * @throws IOException if it can't be opened
     * @throws ArrowwoodException.InvalidData saying what the file looks like instead
     * @throws IllegalArgumentException if several files differ in their schemas
     */
    public static Dataset open(Path path, Arena arena, ReadOption... options) throws IOException {
        return openIn(path, Objects.requireNonNull(arena), options);
    }

    private static Dataset openIn(Path path, Arena arena, ReadOption... options) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment struct = ReadOption.toStruct(call.arena, options);
            return Dataset.create(
                    call, arena, (c, out) -> (int) Native.OPEN.invokeExact(c.path(path), struct, out, c.error));
        });
    }

    /**
     * Opens several paths with equal schemas as one dataset. The collector unmaps it.
     *
     * @param paths the paths
     * @param options how to open them
     * @return the dataset
     * @throws IOException if one can't be opened
     * @throws IllegalArgumentException if there are none, or they differ in their schemas
     */
    public static Dataset open(List<Path> paths, ReadOption... options) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment struct = ReadOption.toStruct(call.arena, options);
            MemorySegment texts = call.paths(paths);
            return Dataset.create(call, null, (c, out) ->
                    (int) Native.OPEN_PATHS.invokeExact(texts, (long) paths.size(), struct, out, c.error));
        });
    }

    /**
     * Opens an IPC file or stream in memory.
     *
     * @param bytes its bytes, which are copied
     * @param options how to open it
     * @return the dataset
     * @throws ArrowwoodException.InvalidData if the bytes are no Arrow data
     */
    public static Dataset openBytes(byte[] bytes, ReadOption... options) {
        return Native.call(call -> {
            MemorySegment copy = Arena.ofAuto().allocate(Math.max(1, bytes.length), RECOMMENDED_ALIGNMENT);
            MemorySegment.copy(bytes, 0, copy, JAVA_BYTE, 0, bytes.length);
            MemorySegment struct = ReadOption.toStruct(call.arena, options);
            long id = SharedMemory.retain(copy);
            try {
                return Dataset.create(call, null, (c, out) -> (int) Native.OPEN_MEMORY.invokeExact(
                        copy,
                        (long) bytes.length,
                        SharedMemory.RELEASE,
                        MemorySegment.ofAddress(id),
                        struct,
                        out,
                        c.error));
            } catch (RuntimeException | Error e) {
                // After a failure the library doesn't own the memory, and never releases it.
                SharedMemory.IN_USE.remove(id);
                throw e;
            }
        });
    }

    /**
     * Memory of Java that the library uses, kept reachable until the library releases it. The library can't hold a
     * reference: it is given an id as the context of its callback, which passes the id to {@link #release}.
     */
    private static final class SharedMemory {
        /** The memory in use, by its id. */
        static final Map<Long, MemorySegment> IN_USE = new ConcurrentHashMap<>();

        private static final AtomicLong NEXT_ID = new AtomicLong(1);
        /** The address of {@link #release}. */
        static final MemorySegment RELEASE = createStub();

        static long retain(MemorySegment memory) {
            long id = NEXT_ID.getAndIncrement();
            IN_USE.put(id, memory);
            return id;
        }

        static void release(MemorySegment id) {
            IN_USE.remove(id.address());
        }

        private static MemorySegment createStub() {
            try {
                MethodType type = MethodType.methodType(void.class, MemorySegment.class);
                MethodHandle release = MethodHandles.lookup().findStatic(SharedMemory.class, "release", type);
                return Linker.nativeLinker().upcallStub(release, FunctionDescriptor.ofVoid(ADDRESS), Arena.global());
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
        }
    }

    /**
     * Imports all batches of a {@code struct ArrowArrayStream} of Arrow's C stream interface without copying. The
     * stream is moved: it is released even on failure. The producer vouches for the values. The collector releases the
     * arrays.
     *
     * @param stream the struct, 40 bytes
     * @return the dataset
     * @throws IllegalArgumentException if the stream fails (the message is its own), or its arrays violate the
     *     interface
     */
    public static Dataset importStream(MemorySegment stream) {
        return importIn(stream, null);
    }

    /**
     * Imports a stream whose arrays are released when an arena ends.
     *
     * @param stream the struct, 40 bytes
     * @param arena the arena that ends the dataset, and everything made from it
     * @return the dataset
     * @throws IllegalArgumentException if the stream fails (the message is its own), or its arrays violate the
     *     interface
     */
    public static Dataset importStream(MemorySegment stream, Arena arena) {
        return importIn(stream, Objects.requireNonNull(arena));
    }

    private static Dataset importIn(MemorySegment stream, Arena arena) {
        return Native.call(call ->
                Dataset.create(call, arena, (c, out) -> (int) Native.IMPORT_STREAM.invokeExact(stream, out, c.error)));
    }

    /**
     * Imports one {@code struct ArrowArray} of Arrow's C data interface without copying: a struct's members become
     * columns. The array is moved, as a stream is; the schema remains the caller's.
     *
     * @param array the array, 80 bytes
     * @param schema its {@code struct ArrowSchema}, 72 bytes
     * @param arena the arena that ends the dataset, and everything made from it
     * @return the dataset
     * @throws IllegalArgumentException if the array violates the interface, or is a struct with null rows
     */
    public static Dataset importArray(MemorySegment array, MemorySegment schema, Arena arena) {
        return Native.call(call -> Dataset.create(call, Objects.requireNonNull(arena), (c, out) ->
                (int) Native.IMPORT_ARRAY.invokeExact(array, schema, out, c.error)));
    }

    /**
     * Options to read a CSV file.
     *
     * @param schema the columns to read, matched by name; empty for all, with inferred types
     * @param dictionary names of text columns to encode by dictionaries
     * @param delimiter an ASCII character; 0 for a comma
     */
    public record CsvOptions(Optional<Schema> schema, List<String> dictionary, char delimiter) {
        /** All columns, between commas. */
        public static final CsvOptions DEFAULT = new CsvOptions(Optional.empty(), List.of(), ',');

        /**
         * Checks and copies the options.
         *
         * @throws NullPointerException if one, or a name, is null
         */
        public CsvOptions {
            Objects.requireNonNull(schema, "schema");
            dictionary = List.copyOf(dictionary);
        }

        /**
         * Returns the options as an {@code arrowwood_csv_options}, which refers to the schema by its address: that
         * doesn't keep it alive.
         */
        private MemorySegment toStruct(Native.Call call) {
            MemorySegment options = CSV_OPTIONS.allocateWithSize(call.arena);
            CSV_OPTIONS.setAddress(options, "schema", schema.map(Schema::struct).orElse(MemorySegment.NULL));
            CSV_OPTIONS.setAddress(options, "dictionary", call.texts(dictionary));
            CSV_OPTIONS.setLong(options, "dictionary_count", dictionary.size());
            CSV_OPTIONS.setInt(options, "delimiter", delimiter);
            return options;
        }
    }

    /**
     * Reads a CSV file with a header line into memory.
     *
     * @param path the file
     * @param options the columns and their delimiter
     * @return the dataset
     * @throws IOException if it can't be read
     * @throws ArrowwoodException.InvalidData naming the line
     * @throws IllegalArgumentException if a column isn't there
     */
    public static Dataset readCsv(Path path, CsvOptions options) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment struct = options.toStruct(call);
            try {
                return Dataset.create(
                        call, null, (c, out) -> (int) Native.READ_CSV.invokeExact(c.path(path), struct, out, c.error));
            } finally {
                // Keeps the schema alive.
                Reference.reachabilityFence(options);
            }
        });
    }

    /**
     * Reads all columns of a CSV file with a header line into memory, with inferred types.
     *
     * @param path the file
     * @return the dataset
     * @throws IOException if it can't be read
     * @throws ArrowwoodException.InvalidData naming the line
     */
    public static Dataset readCsv(Path path) throws IOException {
        return readCsv(path, CsvOptions.DEFAULT);
    }

    // ---- maintenance ----

    /**
     * Checks the structure and all values of a file, table, directory or glob; a table may be written at the same time.
     * Damage is not an exception but counted and listed.
     *
     * @param path the path
     * @param progress receives the progress
     * @return the findings
     * @throws IOException if it can't be read
     */
    public static Report check(Path path, Progress progress) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment report = Report.STRUCT.allocateWithSize(call.arena);
            call.check((int) Native.CHECK.invokeExact(
                    call.path(path),
                    Native.progress(call, progress),
                    MemorySegment.NULL,
                    report,
                    call.out,
                    call.error));
            return Report.of(report, toFindings(Dataset.wrap(call.out.get(ADDRESS, 0), null)), List.of());
        });
    }

    /**
     * Checks without reporting progress.
     *
     * @param path the path
     * @return the findings
     * @throws IOException if it can't be read
     */
    public static Report check(Path path) throws IOException {
        return check(path, Progress.NONE);
    }

    /**
     * Checks, and keeps the rows before the first damage. A damaged file is not modified but renamed to a name that
     * ends in {@code .damaged}.
     *
     * @param path the path
     * @param progress receives the progress
     * @return the findings, and the result of the repair
     * @throws IOException if it can't be read or written
     * @throws ArrowwoodException.Busy if the table is being written
     * @throws IllegalArgumentException if the path is a single segment of a table
     */
    public static Report repair(Path path, Progress progress) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment report = Report.STRUCT.allocateWithSize(call.arena);
            MemorySegment findingsOut = call.arena.allocate(ADDRESS);
            MemorySegment movedOut = call.arena.allocate(ADDRESS);
            call.check((int) Native.REPAIR.invokeExact(
                    call.path(path),
                    Native.progress(call, progress),
                    MemorySegment.NULL,
                    report,
                    findingsOut,
                    movedOut,
                    call.error));

            // Both are wrapped before one is read: an exception must not leave a handle without an owner.
            Dataset findings = Dataset.wrap(findingsOut.get(ADDRESS, 0), null);
            Dataset moved = Dataset.wrap(movedOut.get(ADDRESS, 0), null);
            List<String> movedPaths =
                    moved.stream().map(row -> row.getString("path")).toList();
            return Report.of(report, toFindings(findings), movedPaths);
        });
    }

    /**
     * Repairs without reporting progress.
     *
     * @param path the path
     * @return the findings, and the result of the repair
     * @throws IOException if it can't be read or written
     * @throws ArrowwoodException.Busy if the table is being written
     */
    public static Report repair(Path path) throws IOException {
        return repair(path, Progress.NONE);
    }

    private static List<Report.Finding> toFindings(Dataset rows) {
        return rows.stream().map(Report.Finding::of).toList();
    }

    /**
     * Rewrites all segments of a table as dense Arrow files; readers are not disturbed.
     *
     * @param path the table's directory
     * @param progress receives the progress
     * @return the number of rewritten segments
     * @throws IOException if there is no table, or it can't be written
     * @throws ArrowwoodException.Busy if the table is being written: use {@link TableWriter#compact}
     */
    public static long compact(Path path, Progress progress) throws IOException {
        return Native.callOnPath(call -> {
            call.check((int) Native.COMPACT.invokeExact(
                    call.path(path), Native.progress(call, progress), MemorySegment.NULL, call.out, call.error));
            return call.out.get(JAVA_LONG, 0);
        });
    }

    /**
     * Returns facts about a table.
     *
     * @param path its directory
     * @return the facts
     * @throws IOException if there is no table
     * @throws ArrowwoodException.InvalidData if it is damaged
     */
    public static TableStat stat(Path path) throws IOException {
        return Native.callOnPath(call -> {
            MemorySegment struct = TableStat.STRUCT.allocateWithSize(call.arena);
            call.check((int) Native.TABLE_STAT.invokeExact(call.path(path), struct, call.error));
            return TableStat.of(struct);
        });
    }
}
