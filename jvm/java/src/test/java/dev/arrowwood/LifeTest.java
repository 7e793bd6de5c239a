package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How long datasets and their memory live, and what happens to those who come too late. */
class LifeTest {
    @TempDir
    Path folder;

    @Test
    void afterTheArenaIsClosedEverythingOfItIsRefused() throws Exception {
        Path file = Samples.numbers(folder, 100);
        Dataset ds;
        Column column;
        MemorySegment values;
        DoubleColumn doubles;
        List<Dataset> made;
        try (Arena arena = Arena.ofShared()) {
            ds = Arrowwood.open(file, arena);
            column = ds.column("x");
            values = column.chunks().get(0).values();
            doubles = column.asDouble();
            made = List.of(
                    ds.slice(1, 5),
                    ds.select("x"),
                    ds.take(3),
                    ds.refresh(),
                    ds.filter(Condition.col("n").lt(3)));
            assertEquals(0.5, values.get(JAVA_DOUBLE_UNALIGNED, 0));
            assertEquals(2.5, doubles.get(2));
        }
        assertThrows(IllegalStateException.class, ds::rowCount);
        assertThrows(IllegalStateException.class, () -> ds.row(0));
        assertThrows(IllegalStateException.class, column::sum);
        assertThrows(IllegalStateException.class, column::chunks);
        assertThrows(IllegalStateException.class, () -> values.get(JAVA_DOUBLE_UNALIGNED, 0));
        assertThrows(IllegalStateException.class, () -> doubles.get(2));
        made.forEach(one -> assertThrows(IllegalStateException.class, one::rowCount));
        assertThrows(IllegalStateException.class, () -> ds.follow(0));
        // Nothing is mapped any longer.
        assertTrue(Files.readAllLines(Path.of("/proc/self/maps")).stream()
                .noneMatch(line -> line.contains(file.toString())));
    }

    @Test
    void anotherArenaKeepsTheRows() throws Exception {
        Path file = Samples.numbers(folder, 100);
        Dataset kept;
        try (Arena arena = Arena.ofConfined()) {
            kept = Arrowwood.open(file, arena).in(Arena.global());
        }
        assertEquals(100, kept.rowCount());
        assertEquals(99L, kept.row(99).get("n"));
    }

    @Test
    void aConfinedArenaIsOfOneThread() throws Exception {
        Path file = Samples.numbers(folder, 10);
        try (Arena arena = Arena.ofConfined();
                var threads = Executors.newSingleThreadExecutor()) {
            Dataset ds = Arrowwood.open(file, arena);
            assertEquals(10, ds.rowCount());
            Future<?> other = threads.submit(ds::rowCount);
            var failure = assertThrows(java.util.concurrent.ExecutionException.class, other::get);
            assertInstanceOf(WrongThreadException.class, failure.getCause());
        }
    }

    @Test
    void closingDuringACallIsRefused() throws Exception {
        Path file = Samples.numbers(folder, 100_000);
        Dataset many = Dataset.concat(java.util.Collections.nCopies(200, Arrowwood.open(file)));
        // On a busy machine, a call may be over before anybody comes to close.
        Await.until(() -> isRefusedDuringACall(many), "it is closed during a call");
    }

    private static boolean isRefusedDuringACall(Dataset many) throws Exception {
        Arena arena = Arena.ofShared();
        Dataset ds = many.in(arena);
        AtomicReference<Object> result = new AtomicReference<>();
        // A call that takes seconds, so that the other thread comes in between.
        Thread caller = Thread.ofPlatform()
                .start(() -> result.set(ds.aggregate(
                                List.of("word", "n"),
                                Aggregate.std("x"),
                                Aggregate.var("x").as("v"))
                        .rowCount()));
        Await.until(() -> isInCall(caller) || !caller.isAlive(), "the call has begun");
        Exception refused = null;
        try {
            arena.close();
        } catch (IllegalStateException e) {
            refused = e;
        }
        Await.end(caller);
        assertEquals(100_000L, result.get());
        if (refused == null) {
            return false;
        }
        assertTrue(refused.getMessage().contains("acquired"), refused.getMessage());
        arena.close();
        assertThrows(IllegalStateException.class, ds::rowCount);
        return true;
    }

    /** Closes the arena of a dataset, round after round, while another thread reads a long text of it in each way. */
    static final class CloseWhileReading {
        public static void main(String[] arguments) throws Exception {
            List<Function<Dataset, Object>> ways = List.of(
                    ds -> ds.row(0).get("s"),
                    ds -> ds.column("s").get(0),
                    ds -> ds.column("s").min().orElseThrow(),
                    ds -> ((List<?>) ds.column("items").get(0)).get(0));
            for (int round = 0; round < 40; round++) {
                Function<Dataset, Object> way = ways.get(round % ways.size());
                Arena arena = Arena.ofShared();
                Dataset ds = Arrowwood.open(Path.of(arguments[0]), arena);
                CountDownLatch started = new CountDownLatch(1);
                AtomicReference<Throwable> end = new AtomicReference<>();
                Thread reader = Thread.ofPlatform().start(() -> {
                    try {
                        while (true) {
                            way.apply(ds);
                            started.countDown();
                        }
                    } catch (Throwable e) {
                        end.set(e);
                    }
                });
                started.await();
                closeBetweenCalls(arena);
                reader.join();
                if (!(end.get() instanceof IllegalStateException)) {
                    throw new AssertionError("round " + round, end.get());
                }
            }
            System.out.println("all refused");
        }

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
    void anArenaIsNotClosedWhileATextIsCopied() throws Exception {
        Path file = Samples.longText(folder, 8_000_000);
        assertEquals(
                "all refused\n",
                Programs.run(
                        Programs.java(CloseWhileReading.class, List.of(), file).toArray()));
    }

    /** Reads long texts of datasets that nothing refers to but the call, in compiled code, while the collector runs. */
    static final class ForgetWhileReading {
        public static void main(String[] arguments) throws Exception {
            long bytes = 0;
            for (int i = 0; i < 2_000; i++) {
                bytes += text(Path.of(arguments[0])).length();
            }
            Thread.ofPlatform().daemon().start(() -> {
                while (true) {
                    System.gc();
                }
            });
            for (int i = 0; i < 40; i++) {
                bytes += text(Path.of(arguments[1])).length();
            }
            System.out.println(bytes);
        }

        private static String text(Path file) throws Exception {
            return (String) Arrowwood.open(file).column("s").get(0);
        }
    }

    @Test
    void aForgottenDatasetStaysMappedWhileATextIsCopied() throws Exception {
        Path small = Samples.longText(folder, 1);
        Path large = Samples.longText(folder, 8_000_000);
        // Compiled early: that takes tens of thousands of calls otherwise.
        List<String> early = List.of(
                "-Xbatch",
                "-XX:Tier3InvocationThreshold=100",
                "-XX:Tier4InvocationThreshold=500",
                "-XX:Tier4MinInvocationThreshold=200",
                "-XX:Tier4CompileThreshold=500");
        List<String> java = Programs.java(ForgetWhileReading.class, early, small, large);
        assertEquals("320002000\n", Programs.run(java.toArray()));
    }

    /** Whether a thread is inside the library: nothing of Java is above the function that calls it. */
    private static boolean isInCall(Thread thread) {
        StackTraceElement[] frames = thread.getStackTrace();
        return frames.length > 0
                && frames[0].getMethodName().startsWith("lambda$aggregate")
                && thread.getState() == Thread.State.RUNNABLE;
    }

    @Test
    void aTruncatedFileIsAnExceptionInCallsAndInLoops() throws Exception {
        for (boolean byCall : new boolean[] {true, false}) {
            Path file = folder.resolve("truncated" + byCall + ".arrow");
            Files.copy(Samples.numbers(folder, 200_000), file);
            Dataset ds = Arrowwood.open(file);
            Chunk chunk = ds.column("x").chunks().get(0);
            MemorySegment values = chunk.values();
            // Those of the first batch: 0.5, 1.5 and so on.
            double rows = values.byteSize() / 8;
            // Compiled before, because compiled code is where it could go wrong.
            for (int i = 0; i < 50; i++) {
                assertEquals(rows * rows / 2, sum(values), 0);
            }
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                channel.truncate(8192);
            }
            if (byCall) {
                assertThrows(
                        ArrowwoodException.FileChanged.class,
                        () -> ds.column("x").sum());
                assertThrows(ArrowwoodException.FileChanged.class, () -> chunk.copyOfValues(Arena.ofAuto()));
            } else {
                assertThrows(InternalError.class, () -> sum(values));
                assertThrows(InternalError.class, () -> values.toArray(JAVA_DOUBLE_UNALIGNED));
            }
            assertThrows(ArrowwoodException.FileChanged.class, () -> ds.row(199_999));
            assertThrows(ArrowwoodException.FileChanged.class, () -> ds.stream().toList());
        }
        // The JVM's own use of the signals is as before.
        assertThrows(NullPointerException.class, () -> dereference(null));
        assertThrows(StackOverflowError.class, () -> recurse(0));
    }

    private static double sum(MemorySegment values) {
        double sum = 0;
        for (long i = 0; i < values.byteSize() / 8; i++) {
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

    @Test
    void twentyThousandVirtualThreadsAtOnce() throws Exception {
        Path file = Samples.numbers(folder, 1000);
        Dataset shared = Arrowwood.open(file);
        List<Future<Boolean>> right = new ArrayList<>();
        try (var threads = Executors.newVirtualThreadPerTaskExecutor()) {
            for (int i = 0; i < 20_000; i++) {
                int number = i;
                right.add(threads.submit(() -> switch (number % 4) {
                    case 0 -> (double) shared.column("x").sum() == 500_000;
                    case 1 -> shared.row(number % 1000).getLong("n") == number % 1000;
                    case 2 -> {
                        try (Arena arena = Arena.ofConfined()) {
                            yield Arrowwood.open(file, arena).rowCount() == 1000;
                        }
                    }
                    default ->
                        assertThrows(IndexOutOfBoundsException.class, () -> shared.row(1000 + number))
                                .getMessage()
                                .contains(String.valueOf(1000 + number));
                }));
            }
            for (Future<Boolean> one : right) {
                assertTrue(one.get());
            }
        }
    }

    /** Opens a file again and again without ever closing it; run with a low limit of descriptors. */
    static final class OpenForever {
        public static void main(String[] arguments) throws Exception {
            for (int i = 0; i < 5_000; i++) {
                Dataset ds = Arrowwood.open(Path.of(arguments[0]));
                if (ds.rowCount() != 10) {
                    throw new AssertionError("rows: " + ds.rowCount());
                }
            }
            System.out.println("all opened");
        }
    }

    /** Ways to read a column to its end: what is done before its file is truncated, and then. */
    private static final Map<String, Function<Column, Runnable>> READINGS = Map.of(
            "Column.get", column -> () -> forRows(column, column::get),
            "LongColumn.get",
                    column -> {
                        LongColumn numbers = column.asLong();
                        return () -> forRows(column, row -> numbers.isNull(row) || numbers.get(row) == 0);
                    },
            "LongColumn.stream",
                    column -> {
                        LongColumn numbers = column.asLong();
                        return () -> numbers.stream().sum();
                    },
            "DoubleColumn.get",
                    column -> {
                        DoubleColumn numbers = column.asDouble();
                        return () -> forRows(column, row -> numbers.isNull(row) || numbers.get(row) == 0);
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
                        return () -> forRows(column, numbers::isNull);
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

    private static void forRows(Column column, LongFunction<Object> read) {
        long rows = column.dataset().rowCount();
        for (long row = 0; row < rows; row++) {
            read.apply(row);
        }
    }

    /** A fault in compiled code comes to light later than where it is. */
    @Test
    void callsTellOfATruncatedFileAsOneFailure() throws Exception {
        Path csv = folder.resolve("some.csv");
        try (var out = Files.newBufferedWriter(csv)) {
            out.write("n,some\n");
            for (int n = 0; n < 100_000; n++) {
                out.write(n + "," + (n % 3 == 0 ? "" : n) + "\n");
            }
        }
        Path sound = folder.resolve("sound.arrow");
        Arrowwood.readCsv(csv).write(sound);
        for (int warm : new int[] {0, 30}) {
            for (String column : List.of("n", "some")) {
                for (String name : READINGS.keySet()) {
                    boolean isFlags = name.equals("DoubleColumn.isNull") || name.equals("Chunk.isValid");
                    if (column.equals("n") && isFlags) {
                        // Nothing of the file is read.
                        continue;
                    }
                    Path file = folder.resolve("changed.arrow");
                    Files.copy(sound, file);
                    Runnable reading =
                            READINGS.get(name).apply(Arrowwood.open(file).column(column));
                    for (int i = 0; i < warm; i++) {
                        reading.run();
                    }
                    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                        channel.truncate(4096);
                    }
                    String what = name + " of " + column + " after " + warm;
                    assertThrows(ArrowwoodException.FileChanged.class, reading::run, what);
                    Files.delete(file);
                }
            }
        }
    }

    @Test
    void whatIsForgottenIsUnmappedWhenTheSystemRunsOut() throws Exception {
        Path file = Samples.numbers(folder, 10);
        List<String> java = Programs.java(OpenForever.class, List.of("-Xmx256m"), file);
        List<String> words = new ArrayList<>(List.of("sh", "-c", "ulimit -n 300 && exec \"$@\"", "sh"));
        words.addAll(java);
        assertEquals("all opened\n", Programs.run(words.toArray()));
    }

    @Test
    void aForgottenWriterUnlocksTheTable() throws Exception {
        Path table = folder.resolve("forgotten");
        forget(table);
        Await.until(() -> canBeOpened(table), "the writer that was forgotten is collected");
        try (TableWriter again = TableWriter.open(table)) {
            assertEquals(1, again.progress().committedRows());
        }
    }

    private static boolean canBeOpened(Path table) throws Exception {
        System.gc();
        try {
            TableWriter.open(table).close();
            return true;
        } catch (ArrowwoodException.Busy e) {
            return false;
        }
    }

    private static void forget(Path table) throws Exception {
        TableWriter writer = TableWriter.open(table, Schema.parse("n: int64"));
        writer.appendRow(1);
        writer.commit();
        writer.appendRow(2);
        assertThrows(ArrowwoodException.Busy.class, () -> TableWriter.open(table));
    }

    @Test
    void aWriterAndAFollowerCanBeClosedTwiceAndThenRefuse() throws Exception {
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
        try (TableWriter discarded = TableWriter.open(table)) {
            discarded.appendRow(3);
            discarded.discard();
        }
        assertEquals(1, Arrowwood.open(table).rowCount());
    }
}
