package dev.arrowwood.arrow;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.Arrowwood;
import dev.arrowwood.Chunk;
import dev.arrowwood.Dataset;
import dev.arrowwood.Follow;
import dev.arrowwood.Schema;
import dev.arrowwood.TableWriter;
import dev.arrowwood.WriterOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Locale;
import java.util.function.Function;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;

/**
 * Benchmarks of Arrowwood in Java, beside Arrow Java: {@code Figures FOLDER PYTHON}, where {@code
 * bench/src/bin/calls.rs} has written the data to the folder. Prints a line for each: its name, the minimum and the
 * median in nanoseconds.
 */
final class Figures {
    /** {@code int get_next(struct ArrowArrayStream*, struct ArrowArray*)}. */
    private static final MethodHandle GET_NEXT =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    /** {@code void release(struct ArrowArray*)}, and the same for streams. */
    private static final MethodHandle RELEASE =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.ofVoid(ADDRESS));

    // Sizes and offsets in the structs ArrowArrayStream and ArrowArray of Arrow's C interfaces.
    private static final long STREAM_SIZE = 40;
    private static final long STREAM_GET_NEXT = 8;
    private static final long STREAM_RELEASE = 24;

    private static final long ARRAY_SIZE = 80;
    private static final long ARRAY_LENGTH = 0;
    private static final long ARRAY_BUFFERS = 40;
    private static final long ARRAY_CHILDREN = 48;
    private static final long ARRAY_RELEASE = 64;

    /** The number of rows that are appended in a round. */
    private static final int BATCH_ROWS = 10_000;

    // Commits that a follower waits for; the first ones have the code compiled.
    private static final int COMMITS = 1_500;
    private static final int WARM_UP_COMMITS = 500;

    private Figures() {}

    /** What is measured. */
    interface Task {
        /** Returns a result, so that the compiler can't remove the work. */
        Object run() throws Throwable;
    }

    /** Measures each of some rounds, after others that have the code compiled. */
    private static void measure(String name, int warmUpRounds, int rounds, Task task) throws Throwable {
        for (int i = 0; i < warmUpRounds; i++) {
            task.run();
        }
        long[] nanos = new long[rounds];
        for (int i = 0; i < rounds; i++) {
            long start = System.nanoTime();
            task.run();
            nanos[i] = System.nanoTime() - start;
        }
        print(name, nanos);
    }

    /** Prints a line: the minimum and the median. */
    private static void print(String name, long[] nanos) {
        Arrays.sort(nanos);
        System.out.printf(Locale.ROOT, "%s\t%d\t%d%n", name, nanos[0], nanos[nanos.length / 2]);
    }

    public static void main(String[] arguments) throws Throwable {
        Path folder = Path.of(arguments[0]);
        String python = arguments[1];
        Path oneBatch = folder.resolve("one.arrow");
        Path manyBatches = folder.resolve("many.arrow");
        if (Files.notExists(manyBatches)) {
            Arrowwood.open(folder.resolve("one.stream")).write(oneBatch);
            Arrowwood.open(folder.resolve("many.stream")).write(manyBatches);
        }
        // Arrowwood opens the same file as in Rust: how fast pages are mapped depends on how they were cached. Arrow
        // Java reads files, because its reader of streams is slower.
        measureOpening(folder.resolve("one.stream"), oneBatch);
        measureManyBatches(manyBatches);
        measureAppending(folder.resolve("java-table"));
        measureFollowing(folder.resolve("followed"), python);
    }

    private static void measureOpening(Path stream, Path file) throws Throwable {
        measure("open + rows", 20_000, 5_000, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(stream, arena).rowCount();
            }
        });
        measure("open + first row", 20_000, 5_000, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(stream, arena).row(0).toString();
            }
        });
        measure("open + sum", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(stream, arena).column("price").sum();
            }
        });
        measure("Arrow Java's vectors over ours: load", 50, 200, () -> {
            try (Arena arena = Arena.ofConfined();
                    RootAllocator allocator = new RootAllocator();
                    ArrowReader reader = ArrowJava.reader(Arrowwood.open(stream, arena), allocator)) {
                reader.loadNextBatch();
                return reader.getVectorSchemaRoot().getRowCount();
            }
        });
        measure("Arrow Java: load", 10, 30, () -> readFirstBatch(file, root -> root.getRowCount()));
        measure(
                "Arrow Java: first row",
                10,
                30,
                () -> readFirstBatch(
                        file,
                        root -> root.getVector(0).getObject(0) + " "
                                + root.getVector(1).getObject(0) + " "
                                + root.getVector(2).getObject(0)));
        measure(
                "Arrow Java: sum",
                10,
                30,
                () -> readFirstBatch(file, root -> {
                    Float8Vector prices = (Float8Vector) root.getVector("price");
                    double sum = 0;
                    for (int row = 0; row < root.getRowCount(); row++) {
                        sum += prices.get(row);
                    }
                    return sum;
                }));
    }

    private static Object readFirstBatch(Path file, Function<VectorSchemaRoot, Object> read) throws Exception {
        try (RootAllocator allocator = new RootAllocator();
                FileChannel channel = FileChannel.open(file);
                ArrowFileReader reader = new ArrowFileReader(channel, allocator)) {
            reader.loadNextBatch();
            return read.apply(reader.getVectorSchemaRoot());
        }
    }

    // ---- files of many batches ----

    private static void measureManyBatches(Path file) throws Throwable {
        measure("5,600 batches: all chunks as segments", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                long bytes = 0;
                for (Chunk chunk : Arrowwood.open(file, arena).column("price").chunks()) {
                    bytes += chunk.values().byteSize();
                }
                return bytes;
            }
        });
        measure("5,600 batches: array stream", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return readStream(Arrowwood.open(file, arena).select("price"), arena, Total.BYTES);
            }
        });
        measure("5,600 batches: chunks + sum by hand", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                double sum = 0;
                for (Chunk chunk : Arrowwood.open(file, arena).column("price").chunks()) {
                    sum += sum(chunk.values(), chunk.rowCount());
                }
                return sum;
            }
        });
        measure("5,600 batches: array stream + sum by hand", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return readStream(Arrowwood.open(file, arena).select("price"), arena, Total.VALUES);
            }
        });
        measure("5,600 batches: sum", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(file, arena).column("price").sum();
            }
        });
    }

    private static double sum(MemorySegment values, long rowCount) {
        double sum = 0;
        for (long row = 0; row < rowCount; row++) {
            sum += values.getAtIndex(JAVA_DOUBLE_UNALIGNED, row);
        }
        return sum;
    }

    /** What {@link #readStream} adds up: the bytes of the values, or the values themselves. */
    private enum Total {
        BYTES,
        VALUES
    }

    /** Reads the only column of all batches by the C stream interface, and returns a total. */
    private static double readStream(Dataset dataset, Arena arena, Total total) throws Throwable {
        MemorySegment stream = arena.allocate(STREAM_SIZE, ADDRESS.byteAlignment());
        MemorySegment array = arena.allocate(ARRAY_SIZE, ADDRESS.byteAlignment());
        dataset.exportStream(stream);
        MemorySegment getNext = stream.get(ADDRESS, STREAM_GET_NEXT);
        double result = 0;
        while (true) {
            int error = (int) GET_NEXT.invokeExact(getNext, stream, array);
            MemorySegment release = array.get(ADDRESS, ARRAY_RELEASE);
            if (error != 0 || release.address() == 0) {
                break;
            }
            MemorySegment children = array.get(ADDRESS, ARRAY_CHILDREN).reinterpret(ADDRESS.byteSize());
            MemorySegment column = children.get(ADDRESS, 0).reinterpret(ARRAY_SIZE);
            long rowCount = column.get(JAVA_LONG, ARRAY_LENGTH);
            // The validity bitmap, then the values.
            MemorySegment buffers = column.get(ADDRESS, ARRAY_BUFFERS).reinterpret(2 * ADDRESS.byteSize());
            MemorySegment values = buffers.getAtIndex(ADDRESS, 1).reinterpret(rowCount * Double.BYTES);
            result += total == Total.VALUES ? sum(values, rowCount) : values.byteSize();
            RELEASE.invokeExact(release, array);
        }
        RELEASE.invokeExact(stream.get(ADDRESS, STREAM_RELEASE), stream);
        return result;
    }

    // ---- tables ----

    record InstantTick(Instant ts, String symbol, double price) {}

    record LongTick(long ts, String symbol, double price) {}

    private static String symbol(int row) {
        return row % 2 == 1 ? "AAPL" : "IBM";
    }

    private static void measureAppending(Path table) throws Throwable {
        WriterOptions options =
                WriterOptions.DEFAULT.sync(WriterOptions.Sync.NEVER).dictionary("symbol");
        try (TableWriter writer = TableWriter.open(table, Schema.of(InstantTick.class), options)) {
            measure("10,000 records appended, one commit", 200, 100, () -> {
                for (int i = 0; i < BATCH_ROWS; i++) {
                    writer.append(new LongTick(i, symbol(i), i));
                }
                writer.commit();
                return null;
            });
            measure("10,000 records with an Instant appended, one commit", 200, 100, () -> {
                for (int i = 0; i < BATCH_ROWS; i++) {
                    writer.append(new InstantTick(Instant.ofEpochSecond(i), symbol(i), i));
                }
                writer.commit();
                return null;
            });
        }
    }

    /**
     * Measures the time from a commit in Python until a follower has its row, which is the time right before the
     * commit. {@code time.monotonic_ns} and {@code System.nanoTime} read the same clock.
     */
    private static void measureFollowing(Path table, String python) throws Throwable {
        if (!Files.isExecutable(Path.of(python))) {
            return;
        }
        Process writer = new ProcessBuilder(python, "-c", """
            import sys, time
            import arrowwood as aw, pyarrow as pa
            with aw.writer(sys.argv[1], pa.schema([("t", pa.int64())]), sync="never") as writer:
                print("open", flush=True)
                time.sleep(1)
                for _ in range(int(sys.argv[2])):
                    time.sleep(0.002)
                    writer.append_row(t=time.monotonic_ns())
                    writer.commit()
            """, table.toString(), String.valueOf(COMMITS))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        writer.inputReader().readLine();
        long[] latencies = new long[COMMITS];
        try (Follow follow = Arrowwood.open(table).follow(0)) {
            int received = 0;
            while (received < COMMITS) {
                Dataset rows = follow.next(Duration.ofSeconds(30)).orElseThrow();
                long now = System.nanoTime();
                for (long row = 0; row < rows.rowCount(); row++) {
                    latencies[received] = now - (long) rows.column(0).get(row);
                    received++;
                }
            }
        }
        writer.waitFor();
        print("commit in Python, seen by a follower", Arrays.copyOfRange(latencies, WARM_UP_COMMITS, COMMITS));
    }
}
