package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.Writer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests how long datasets, their memory, writers and followers live, and that later calls throw. */
class LifetimeTest {
    private static final int LONG_TEXT = 8_000_000;

    @TempDir
    Path folder;

    @Test
    void closingArenaUnmapsFileAndInvalidatesDatasets() throws Exception {
        Path file = Samples.writeNumbers(folder, 100);
        Dataset dataset;
        Column column;
        MemorySegment values;
        DoubleColumn doubles;
        List<Dataset> derived;
        try (Arena arena = Arena.ofShared()) {
            dataset = Arrowwood.open(file, arena);
            column = dataset.column("x");
            values = column.chunks().get(0).values();
            doubles = column.asDouble();
            derived = List.of(
                    dataset.slice(1, 5),
                    dataset.select("x"),
                    dataset.take(3),
                    dataset.refresh(),
                    dataset.filter(Condition.col("n").lt(3)));
            assertEquals(0.5, values.get(JAVA_DOUBLE_UNALIGNED, 0));
            assertEquals(2.5, doubles.get(2));
        }
        assertThrows(IllegalStateException.class, dataset::rowCount);
        assertThrows(IllegalStateException.class, () -> dataset.row(0));
        assertThrows(IllegalStateException.class, column::sum);
        assertThrows(IllegalStateException.class, column::chunks);
        assertThrows(IllegalStateException.class, () -> values.get(JAVA_DOUBLE_UNALIGNED, 0));
        assertThrows(IllegalStateException.class, () -> doubles.get(2));
        derived.forEach(other -> assertThrows(IllegalStateException.class, other::rowCount));
        assertThrows(IllegalStateException.class, () -> dataset.follow(0));
        List<String> mappings = Files.readAllLines(Path.of("/proc/self/maps"));
        assertTrue(mappings.stream().noneMatch(line -> line.contains(file.toString())));
    }

    @Test
    void datasetInAnotherArenaOutlivesTheFirst() throws Exception {
        Path file = Samples.writeNumbers(folder, 100);
        Dataset dataset;
        try (Arena arena = Arena.ofConfined()) {
            dataset = Arrowwood.open(file, arena).in(Arena.global());
        }
        assertEquals(100, dataset.rowCount());
        assertEquals(99L, dataset.row(99).get("n"));
    }

    @Test
    void confinedArenaRefusesOtherThreads() throws Exception {
        Path file = Samples.writeNumbers(folder, 10);
        try (Arena arena = Arena.ofConfined();
                ExecutorService executor = Executors.newSingleThreadExecutor()) {
            Dataset dataset = Arrowwood.open(file, arena);
            assertEquals(10, dataset.rowCount());
            Future<?> rowCount = executor.submit(dataset::rowCount);
            ExecutionException failure = assertThrows(ExecutionException.class, rowCount::get);
            assertInstanceOf(WrongThreadException.class, failure.getCause());
        }
    }

    @Test
    void arenaCannotBeClosedDuringACall() throws Exception {
        Path file = Samples.writeNumbers(folder, 100_000);
        Dataset large = Dataset.concat(Collections.nCopies(200, Arrowwood.open(file)));
        // Repeated, because on a busy machine the call may end before this thread tries to close the arena.
        Await.until(() -> closesArenaDuringCall(large), "the arena is closed during a call");
    }

    /**
     * Closes an arena while another thread aggregates; returns false if the call had not begun, or had ended.
     */
    private static boolean closesArenaDuringCall(Dataset large) throws Exception {
        Arena arena = Arena.ofShared();
        Dataset dataset = large.in(arena);
        // Takes seconds, so that there is time to close the arena.
        FutureTask<Long> groupCount = new FutureTask<>(() -> dataset.aggregate(
                        List.of("word", "n"),
                        Aggregate.std("x"),
                        Aggregate.var("x").as("v"))
                .rowCount());
        Thread caller = Thread.ofPlatform().start(groupCount);
        Await.until(() -> isInAggregate(caller) || !caller.isAlive(), "the call has begun");
        IllegalStateException refusal = null;
        try {
            arena.close();
        } catch (IllegalStateException e) {
            refusal = e;
        }
        Await.termination(caller);
        if (refusal == null) {
            // Either the call was over, or it found its arena closed.
            try {
                assertEquals(100_000L, groupCount.get());
            } catch (ExecutionException e) {
                assertInstanceOf(IllegalStateException.class, e.getCause());
                assertTrue(
                        e.getCause().getMessage().contains("closed"),
                        e.getCause().getMessage());
            }
            return false;
        }
        assertEquals(100_000L, groupCount.get());
        assertTrue(refusal.getMessage().contains("acquired"), refusal.getMessage());
        arena.close();
        assertThrows(IllegalStateException.class, dataset::rowCount);
        return true;
    }

    /**
     * Returns true if a thread is about to call the native function, in it, or just back: its topmost Java frame is the
     * lambda with the call.
     */
    private static boolean isInAggregate(Thread thread) {
        StackTraceElement[] frames = thread.getStackTrace();
        return frames.length > 0
                && frames[0].getMethodName().startsWith("lambda$aggregate")
                && thread.getState() == Thread.State.RUNNABLE;
    }

    /** Closes arenas while another thread reads a long text of their dataset, in several ways. */
    static final class CloseWhileReading {
        private static final int ROUNDS = 40;

        public static void main(String[] arguments) throws Exception {
            Path file = Path.of(arguments[0]);
            List<Function<Dataset, Object>> reads = List.of(
                    dataset -> dataset.row(0).get("s"),
                    dataset -> dataset.column("s").get(0),
                    dataset -> dataset.column("s").min().orElseThrow(),
                    dataset -> ((List<?>) dataset.column("items").get(0)).get(0));
            for (int round = 0; round < ROUNDS; round++) {
                Throwable failure = closeWhileReading(file, reads.get(round % reads.size()));
                if (!(failure instanceof IllegalStateException)) {
                    throw new AssertionError("round " + round, failure);
                }
            }
            System.out.println("all refused");
        }

        /** Returns the exception that ends the reading thread. */
        private static Throwable closeWhileReading(Path file, Function<Dataset, Object> read) throws Exception {
            Arena arena = Arena.ofShared();
            Dataset dataset = Arrowwood.open(file, arena);
            CountDownLatch firstRead = new CountDownLatch(1);
            AtomicReference<Throwable> failure = new AtomicReference<>();
            Thread reader = Thread.ofPlatform().start(() -> {
                try {
                    while (true) {
                        read.apply(dataset);
                        firstRead.countDown();
                    }
                } catch (Throwable e) {
                    // The caller decides whether it is the expected one.
                    failure.set(e);
                }
            });
            firstRead.await();
            closeBetweenCalls(arena);
            reader.join();
            return failure.get();
        }

        /** Tries to close an arena until no call uses it. */
        private static void closeBetweenCalls(Arena arena) {
            while (true) {
                try {
                    arena.close();
                    return;
                } catch (IllegalStateException e) {
                    Thread.onSpinWait();
                }
            }
        }
    }

    @Test
    void arenaIsNotClosedWhileTextIsCopied() throws Exception {
        Path file = Samples.writeLongText(folder, LONG_TEXT);
        List<String> command = Programs.javaCommand(CloseWhileReading.class, List.of(), file);
        assertEquals("all refused\n", Programs.run(command.toArray()));
    }

    /**
     * Reads texts of datasets that only the call itself refers to, while the garbage collector runs. The short texts of
     * the first file have the code compiled: in compiled code, an object may be collected during a call on it.
     */
    static final class CollectWhileReading {
        public static void main(String[] arguments) throws Exception {
            long length = 0;
            for (int i = 0; i < 2_000; i++) {
                length += readText(Path.of(arguments[0])).length();
            }
            Thread.ofPlatform().daemon().start(() -> {
                while (true) {
                    System.gc();
                }
            });
            for (int i = 0; i < 40; i++) {
                length += readText(Path.of(arguments[1])).length();
            }
            System.out.println(length);
        }

        private static String readText(Path file) throws Exception {
            return (String) Arrowwood.open(file).column("s").get(0);
        }
    }

    @Test
    void unreachableDatasetStaysMappedWhileTextIsCopied() throws Exception {
        Path shortText = Samples.writeLongText(folder, 1);
        Path longText = Samples.writeLongText(folder, LONG_TEXT);
        // Methods are compiled only after tens of thousands of calls by default.
        List<String> compileEarly = List.of(
                "-Xbatch",
                "-XX:Tier3InvocationThreshold=100",
                "-XX:Tier4InvocationThreshold=500",
                "-XX:Tier4MinInvocationThreshold=200",
                "-XX:Tier4CompileThreshold=500");
        List<String> command = Programs.javaCommand(CollectWhileReading.class, compileEarly, shortText, longText);
        assertEquals("320002000\n", Programs.run(command.toArray()));
    }

    @Test
    void truncatedFileThrowsInCallsAndInLoops() throws Exception {
        for (boolean byCall : new boolean[] {true, false}) {
            Path file = folder.resolve("truncated" + byCall + ".arrow");
            Files.copy(Samples.writeNumbers(folder, 200_000), file);
            Dataset dataset = Arrowwood.open(file);
            Chunk chunk = dataset.column("x").chunks().get(0);
            MemorySegment values = chunk.values();
            double rowCount = values.byteSize() / Double.BYTES;
            // The values are 0.5, 1.5 and so on. Repeated to have the loop compiled: faults are reported later there.
            for (int i = 0; i < 50; i++) {
                assertEquals(rowCount * rowCount / 2, sum(values), 0);
            }
            truncate(file, 8192);
            if (byCall) {
                assertThrows(
                        ArrowwoodException.FileChanged.class,
                        () -> dataset.column("x").sum());
                assertThrows(ArrowwoodException.FileChanged.class, () -> chunk.copyOfValues(Arena.ofAuto()));
            } else {
                assertThrows(InternalError.class, () -> sum(values));
                assertThrows(InternalError.class, () -> values.toArray(JAVA_DOUBLE_UNALIGNED));
            }
            assertThrows(ArrowwoodException.FileChanged.class, () -> dataset.row(199_999));
            assertThrows(
                    ArrowwoodException.FileChanged.class, () -> dataset.stream().toList());
        }
        // The JVM uses the same signals for these.
        assertThrows(NullPointerException.class, () -> dereference(null));
        assertThrows(StackOverflowError.class, () -> recurse(0));
    }

    private static double sum(MemorySegment values) {
        double sum = 0;
        for (long i = 0; i < values.byteSize() / Double.BYTES; i++) {
            sum += values.getAtIndex(JAVA_DOUBLE_UNALIGNED, i);
        }
        return sum;
    }

    private static int dereference(int[] numbers) {
        return numbers[0];
    }

    private static int recurse(int depth) {
        return recurse(depth + 1) + 1;
    }

    private static void truncate(Path file, long size) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.truncate(size);
        }
    }

    /** Functions that prepare to read a column and return the read, which runs after the file is truncated. */
    private static final Map<String, Function<Column, Runnable>> READS = Map.of(
            "Column.get", column -> () -> forEachRow(column, column::get),
            "LongColumn.get",
                    column -> {
                        LongColumn numbers = column.asLong();
                        return () -> forEachRow(column, row -> numbers.isNull(row) || numbers.get(row) == 0);
                    },
            "LongColumn.stream",
                    column -> {
                        LongColumn numbers = column.asLong();
                        return () -> numbers.stream().sum();
                    },
            "DoubleColumn.get",
                    column -> {
                        DoubleColumn numbers = column.asDouble();
                        return () -> forEachRow(column, row -> numbers.isNull(row) || numbers.get(row) == 0);
                    },
            "DoubleColumn.stream",
                    column -> {
                        DoubleColumn numbers = column.asDouble();
                        return () -> numbers.stream().sum();
                    },
            "DoubleColumn.stream, parallel",
                    column -> {
                        DoubleColumn numbers = column.asDouble();
                        return () -> numbers.stream().parallel().sum();
                    },
            "DoubleColumn.isNull",
                    column -> {
                        DoubleColumn numbers = column.asDouble();
                        return () -> forEachRow(column, numbers::isNull);
                    },
            "Chunk.isValid",
                    column -> {
                        List<Chunk> chunks = List.copyOf(column.chunks());
                        return () -> chunks.forEach(
                                chunk -> LongStream.range(0, chunk.rowCount()).forEach(chunk::isValid));
                    },
            "sum", column -> column::sum,
            "copyOfValues",
                    column -> {
                        List<Chunk> chunks = List.copyOf(column.chunks());
                        return () -> chunks.forEach(chunk -> chunk.copyOfValues(Arena.ofAuto()));
                    });

    private static void forEachRow(Column column, LongFunction<Object> read) {
        long rowCount = column.dataset().rowCount();
        for (long row = 0; row < rowCount; row++) {
            read.apply(row);
        }
    }

    /** Checks interpreted and compiled code, which reports a fault later than where it happens. */
    @Test
    void readsOfTruncatedFileThrowFileChanged() throws Exception {
        Path csv = folder.resolve("some.csv");
        try (Writer lines = Files.newBufferedWriter(csv)) {
            lines.write("n,some\n");
            for (int n = 0; n < 100_000; n++) {
                lines.write(n + "," + (n % 3 == 0 ? "" : n) + "\n");
            }
        }
        Path original = folder.resolve("sound.arrow");
        Arrowwood.readCsv(csv).write(original);
        for (int warmUpRuns : new int[] {0, 30}) {
            for (String column : List.of("n", "some")) {
                for (String name : READS.keySet()) {
                    boolean readsOnlyValidity = name.equals("DoubleColumn.isNull") || name.equals("Chunk.isValid");
                    if (column.equals("n") && readsOnlyValidity) {
                        // The column has no nulls and no validity bitmap, so nothing is read from the file.
                        continue;
                    }
                    Path file = folder.resolve("changed.arrow");
                    Files.copy(original, file);
                    Runnable read = READS.get(name).apply(Arrowwood.open(file).column(column));
                    for (int i = 0; i < warmUpRuns; i++) {
                        read.run();
                    }
                    truncate(file, 4096);
                    String description = name + " of " + column + " after " + warmUpRuns + " runs";
                    assertThrows(ArrowwoodException.FileChanged.class, read::run, description);
                    Files.delete(file);
                }
            }
        }
    }

    @Test
    void manyVirtualThreadsShareADataset() throws Exception {
        Path file = Samples.writeNumbers(folder, 1000);
        Dataset shared = Arrowwood.open(file);
        List<Future<Boolean>> results = new ArrayList<>();
        try (ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor()) {
            for (int i = 0; i < 20_000; i++) {
                int number = i;
                results.add(executor.submit(() -> usesDatasetCorrectly(shared, file, number)));
            }
            for (Future<Boolean> result : results) {
                assertTrue(result.get());
            }
        }
    }

    /** Does one of four things with a dataset of 1,000 rows or its file; returns true if the result is right. */
    private static boolean usesDatasetCorrectly(Dataset shared, Path file, int number) throws Exception {
        return switch (number % 4) {
            case 0 -> (double) shared.column("x").sum() == 500_000;
            case 1 -> shared.row(number % 1000).getLong("n") == number % 1000;
            case 2 -> {
                try (Arena arena = Arena.ofConfined()) {
                    yield Arrowwood.open(file, arena).rowCount() == 1000;
                }
            }
            default -> {
                int missingRow = 1000 + number;
                yield assertThrows(IndexOutOfBoundsException.class, () -> shared.row(missingRow))
                        .getMessage()
                        .contains(String.valueOf(missingRow));
            }
        };
    }

    /** Opens a file many times without closing it; run with a low limit of file descriptors. */
    static final class OpenManyTimes {
        public static void main(String[] arguments) throws Exception {
            for (int i = 0; i < 5_000; i++) {
                Dataset dataset = Arrowwood.open(Path.of(arguments[0]));
                if (dataset.rowCount() != 10) {
                    throw new AssertionError("rows: " + dataset.rowCount());
                }
            }
            System.out.println("all opened");
        }
    }

    @Test
    void unreachableDatasetsAreFreedWhenFileDescriptorsRunOut() throws Exception {
        Path file = Samples.writeNumbers(folder, 10);
        List<String> command = new ArrayList<>(List.of("sh", "-c", "ulimit -n 300 && exec \"$@\"", "sh"));
        command.addAll(Programs.javaCommand(OpenManyTimes.class, List.of("-Xmx256m"), file));
        assertEquals("all opened\n", Programs.run(command.toArray()));
    }

    @Test
    void unreachableWriterUnlocksItsTable() throws Exception {
        Path table = folder.resolve("forgotten");
        leakWriter(table);
        Await.until(() -> canOpenWriter(table), "the unreachable writer is collected");
        try (TableWriter writer = TableWriter.open(table)) {
            assertEquals(1, writer.progress().committedRows());
        }
    }

    /** Leaves a writer open, with one row that is committed and one that isn't. */
    private static void leakWriter(Path table) throws Exception {
        TableWriter writer = TableWriter.open(table, Schema.parse("n: int64"));
        writer.appendRow(1);
        writer.commit();
        writer.appendRow(2);
        assertThrows(ArrowwoodException.Busy.class, () -> TableWriter.open(table));
    }

    private static boolean canOpenWriter(Path table) throws Exception {
        System.gc();
        try {
            TableWriter.open(table).close();
            return true;
        } catch (ArrowwoodException.Busy e) {
            return false;
        }
    }

    @Test
    void closedWriterAndFollowerRefuseCallsExceptClose() throws Exception {
        Path table = folder.resolve("closed");
        TableWriter writer = TableWriter.open(table, Schema.parse("n: int64"));
        writer.appendRow(1);
        writer.commit();
        writer.close();
        writer.close();
        assertThrows(IllegalStateException.class, () -> writer.appendRow(2));
        assertThrows(IllegalStateException.class, writer::commit);

        Follow follow = Arrowwood.open(table).follow(0);
        Dataset rows = follow.next(Duration.ofSeconds(1)).orElseThrow();
        follow.close();
        follow.close();
        assertThrows(IllegalStateException.class, () -> follow.next(Duration.ZERO));
        assertEquals(1, rows.rowCount());

        try (TableWriter discarding = TableWriter.open(table)) {
            discarding.appendRow(3);
            discarding.discard();
        }
        assertEquals(1, Arrowwood.open(table).rowCount());
    }
}
