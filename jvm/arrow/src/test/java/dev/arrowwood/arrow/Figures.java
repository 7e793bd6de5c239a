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
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;

/**
 * What things cost in Java, beside Arrow Java: {@code Figures FOLDER PYTHON}, where {@code bench/src/bin/calls.rs} has
 * made the data. Prints a line for each: name, the least and the median nanoseconds.
 */
final class Figures {
    private Figures() {}

    interface Work {
        Object run() throws Throwable;
    }

    /** Times each of so many rounds, after as many as it takes to be compiled. */
    private static void time(String name, int warm, int rounds, Work work) throws Throwable {
        for (int i = 0; i < warm; i++) {
            work.run();
        }
        long[] taken = new long[rounds];
        for (int i = 0; i < rounds; i++) {
            long start = System.nanoTime();
            work.run();
            taken[i] = System.nanoTime() - start;
        }
        print(name, taken);
    }

    private static void print(String name, long[] taken) {
        Arrays.sort(taken);
        System.out.printf(Locale.ROOT, "%s\t%d\t%d%n", name, taken[0], taken[taken.length / 2]);
    }

    public static void main(String[] arguments) throws Throwable {
        Path folder = Path.of(arguments[0]);
        Path one = folder.resolve("one.arrow");
        Path many = folder.resolve("many.arrow");
        // Arrow Java's reader of files is the faster of its two.
        if (Files.notExists(many)) {
            Arrowwood.open(folder.resolve("one.stream")).write(one);
            Arrowwood.open(folder.resolve("many.stream")).write(many);
        }
        // The file that Rust is measured with: how fast pages are mapped depends on how they came into the page cache.
        opening(folder.resolve("one.stream"), one);
        batches(many);
        appending(folder.resolve("java-table"));
        following(folder.resolve("followed"), arguments[1]);
    }

    private static void opening(Path file, Path footed) throws Throwable {
        time("open + rows", 20_000, 5_000, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(file, arena).rowCount();
            }
        });
        time("open + first row", 20_000, 5_000, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(file, arena).row(0).toString();
            }
        });
        time("open + sum", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(file, arena).column("price").sum();
            }
        });
        time("Arrow Java's vectors over ours: load", 50, 200, () -> {
            try (Arena arena = Arena.ofConfined();
                    RootAllocator allocator = new RootAllocator();
                    ArrowReader reader = ArrowJava.reader(Arrowwood.open(file, arena), allocator)) {
                reader.loadNextBatch();
                return reader.getVectorSchemaRoot().getRowCount();
            }
        });
        time("Arrow Java: load", 10, 30, () -> arrowJava(footed, root -> root.getRowCount()));
        time(
                "Arrow Java: first row",
                10,
                30,
                () -> arrowJava(
                        footed,
                        root -> root.getVector(0).getObject(0) + " "
                                + root.getVector(1).getObject(0) + " "
                                + root.getVector(2).getObject(0)));
        time(
                "Arrow Java: sum",
                10,
                30,
                () -> arrowJava(footed, root -> {
                    Float8Vector prices = (Float8Vector) root.getVector("price");
                    double sum = 0;
                    for (int row = 0; row < root.getRowCount(); row++) {
                        sum += prices.get(row);
                    }
                    return sum;
                }));
    }

    interface OfRoot {
        Object of(VectorSchemaRoot root);
    }

    private static Object arrowJava(Path file, OfRoot work) throws Exception {
        try (RootAllocator allocator = new RootAllocator();
                FileChannel channel = FileChannel.open(file);
                ArrowFileReader reader = new ArrowFileReader(channel, allocator)) {
            reader.loadNextBatch();
            return work.of(reader.getVectorSchemaRoot());
        }
    }

    // ---- 5,600 batches ----

    private static void batches(Path file) throws Throwable {
        time("5,600 batches: all chunks as segments", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                long bytes = 0;
                for (Chunk chunk : Arrowwood.open(file, arena).column("price").chunks()) {
                    bytes += chunk.values().byteSize();
                }
                return bytes;
            }
        });
        time("5,600 batches: array stream", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return streamed(Arrowwood.open(file, arena).select("price"), arena, false);
            }
        });
        time("5,600 batches: chunks + sum by hand", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                double sum = 0;
                for (Chunk chunk : Arrowwood.open(file, arena).column("price").chunks()) {
                    sum += sum(chunk.values(), chunk.rowCount());
                }
                return sum;
            }
        });
        time("5,600 batches: array stream + sum by hand", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return streamed(Arrowwood.open(file, arena).select("price"), arena, true);
            }
        });
        time("5,600 batches: sum", 20, 60, () -> {
            try (Arena arena = Arena.ofConfined()) {
                return Arrowwood.open(file, arena).column("price").sum();
            }
        });
    }

    private static double sum(MemorySegment values, long rows) {
        double sum = 0;
        for (long row = 0; row < rows; row++) {
            sum += values.getAtIndex(JAVA_DOUBLE_UNALIGNED, row);
        }
        return sum;
    }

    private static final MethodHandle NEXT =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    private static final MethodHandle RELEASE =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.ofVoid(ADDRESS));

    /** The only column of all batches, by the C stream interface. */
    private static double streamed(Dataset dataset, Arena arena, boolean added) throws Throwable {
        MemorySegment stream = arena.allocate(40, 8);
        MemorySegment array = arena.allocate(80, 8);
        dataset.exportStream(stream);
        MemorySegment next = stream.get(ADDRESS, 8);
        double sum = 0;
        while (true) {
            int code = (int) NEXT.invokeExact(next, stream, array);
            MemorySegment release = array.get(ADDRESS, 64);
            if (code != 0 || release.address() == 0) {
                break;
            }
            MemorySegment column =
                    array.get(ADDRESS, 48).reinterpret(8).get(ADDRESS, 0).reinterpret(80);
            long rows = column.get(JAVA_LONG, 0);
            MemorySegment values =
                    column.get(ADDRESS, 40).reinterpret(16).get(ADDRESS, 8).reinterpret(rows * 8);
            sum += added ? sum(values, rows) : values.byteSize();
            RELEASE.invokeExact(release, array);
        }
        RELEASE.invokeExact(stream.get(ADDRESS, 24), stream);
        return sum;
    }

    // ---- tables ----

    record Tick(Instant ts, String symbol, double price) {}

    record Count(long ts, String symbol, double price) {}

    private static void appending(Path table) throws Throwable {
        WriterOptions options =
                WriterOptions.DEFAULT.sync(WriterOptions.Sync.NEVER).dictionary("symbol");
        try (TableWriter writer = TableWriter.open(table, Schema.of(Tick.class), options)) {
            time("10,000 records appended, one commit", 200, 100, () -> {
                for (int i = 0; i < 10_000; i++) {
                    writer.append(new Count(i, (i & 1) == 1 ? "AAPL" : "IBM", i));
                }
                writer.commit();
                return null;
            });
            time("10,000 records with an Instant appended, one commit", 200, 100, () -> {
                for (int i = 0; i < 10_000; i++) {
                    writer.append(new Tick(Instant.ofEpochSecond(i), (i & 1) == 1 ? "AAPL" : "IBM", i));
                }
                writer.commit();
                return null;
            });
        }
    }

    /** Python writes the time before each commit, by the clock that nanoTime is of. */
    private static void following(Path table, String python) throws Throwable {
        if (!Files.isExecutable(Path.of(python))) {
            return;
        }
        int commits = 1_500;
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
            """, table.toString(), String.valueOf(commits))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        writer.inputReader().readLine();
        long[] late = new long[commits];
        try (Follow follow = Arrowwood.open(table).follow(0)) {
            for (int seen = 0; seen < commits; ) {
                Dataset rows = follow.next(Duration.ofSeconds(30)).orElseThrow();
                long now = System.nanoTime();
                for (long row = 0; row < rows.rowCount(); row++) {
                    late[seen++] = now - (long) rows.column(0).get(row);
                }
            }
        }
        writer.waitFor();
        print("commit in Python, seen by a follower", Arrays.copyOfRange(late, 500, commits));
    }
}
