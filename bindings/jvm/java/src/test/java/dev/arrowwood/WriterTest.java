package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests what commits of a writer make visible and durable, with source positions, schema changes and many threads. */
class WriterTest {
    @TempDir
    Path folder;

    private TableWriter openWriter() throws Exception {
        return TableWriter.open(folder.resolve("table"), Schema.parse("n: int64"));
    }

    @Test
    void positionsAreStoredWithTheCommit() throws Exception {
        try (TableWriter writer = openWriter()) {
            assertEquals(Map.of(), writer.positions());
            writer.appendRow(1);
            writer.commit(Map.of("kafka/ticks/0", 17L, "kafka/ticks/1", -3L));
            writer.appendRow(2);
            Dataset firstCommit = Arrowwood.open(folder.resolve("table"));
            writer.commitDurably(Map.of("kafka/ticks/0", 18L));
            assertEquals(2, writer.progress().durableRows());
            assertEquals(Map.of("kafka/ticks/0", 18L, "kafka/ticks/1", -3L), writer.positions());
            assertEquals(17L, firstCommit.positions().get("kafka/ticks/0"));
            assertEquals(18L, firstCommit.refresh().positions().get("kafka/ticks/0"));
            writer.appendRow(3);
            for (String invalid : List.of("", "a\nb", "x".repeat(256), "\0")) {
                assertThrows(IllegalArgumentException.class, () -> writer.commit(Map.of(invalid, 1L)), invalid);
            }
            assertEquals(2, writer.progress().committedRows());
            writer.commit(Map.of());
        }
        Dataset table = Arrowwood.open(folder.resolve("table"));
        assertEquals(3, table.rowCount());
        assertEquals(Map.of("kafka/ticks/0", 18L, "kafka/ticks/1", -3L), table.positions());
        try (TableWriter reopened = openWriter()) {
            assertEquals(18L, reopened.positions().get("kafka/ticks/0"));
        }
    }

    /** Collects log records as text. */
    private static final class LogCollector extends Handler {
        final List<String> messages = new ArrayList<>();

        @Override
        public void publish(LogRecord entry) {
            messages.add(entry.getLevel() + " " + new SimpleFormatter().formatMessage(entry));
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }

    /** Checks that a consumer which restarts after an exception repeats no rows: half a batch has no position yet. */
    @Test
    void closeAfterExceptionDiscardsUncommittedRows() throws Exception {
        LogCollector log = new LogCollector();
        Logger logger = Logger.getLogger("dev.arrowwood");
        logger.addHandler(log);
        try {
            assertThrows(IllegalStateException.class, () -> consumeBatch(true));
            consumeBatch(false);
        } finally {
            logger.removeHandler(log);
        }
        Path path = folder.resolve("table");
        assertEquals(
                List.of("WARNING 5 rows were discarded: the writer of " + path + " was closed without a commit"),
                log.messages);
        Dataset table = Arrowwood.open(path);
        assertEquals(Map.of("kafka/t/0", 10L), table.positions());
        assertEquals(LongStream.range(0, 10).boxed().toList(), numbers(table));
    }

    private static List<Long> numbers(Dataset table) {
        return table.stream().map(row -> row.getLong("n")).toList();
    }

    /** Appends ten rows from the committed position on, or fails after five. */
    private void consumeBatch(boolean failsHalfway) throws Exception {
        try (TableWriter writer = openWriter()) {
            long offset = writer.positions().getOrDefault("kafka/t/0", 0L);
            for (int i = 0; i < 10; i++) {
                if (failsHalfway && i == 5) {
                    throw new IllegalStateException("a message that can't be parsed");
                }
                writer.appendRow(offset);
                offset++;
            }
            writer.commit(Map.of("kafka/t/0", offset));
        }
    }

    /** Regression test: a dataset whose next row was dropped found no new rows until the live segment was full. */
    @Test
    void refreshSkipsDroppedRows() throws Exception {
        Path path = folder.resolve("table");
        WriterOptions options = WriterOptions.DEFAULT.segmentRows(4);
        try (TableWriter writer = TableWriter.open(path, Schema.parse("n: int64"), options)) {
            for (long n = 0; n < 10; n++) {
                writer.appendRow(n);
            }
            writer.commit();
            Dataset table = Arrowwood.open(path);
            assertEquals(8, writer.dropBefore(8));
            Dataset refreshed = table.refresh();
            assertEquals(8, refreshed.firstRow());
            assertEquals(List.of(8L, 9L), numbers(refreshed));
            assertEquals(10, table.rowCount());
        }
    }

    /** Regression test: the call returned normally, after it had synced files that no folder contained. */
    @Test
    void commitDurablyFailsIfTableWasRemoved() throws Exception {
        Path table = folder.resolve("table");
        TableWriter writer = openWriter();
        writer.appendRow(1L);
        writer.commit();
        List<Path> files;
        try (Stream<Path> list = Files.list(table)) {
            files = list.toList();
        }
        for (Path file : files) {
            Files.delete(file);
        }
        Files.delete(table);
        writer.appendRow(2L);
        RuntimeException failure = assertThrows(RuntimeException.class, writer::commitDurably);
        assertInstanceOf(ArrowwoodException.class, failure);
        assertThrows(RuntimeException.class, writer::commitDurably);
    }

    @Test
    void writerWithNewerSchemaChangesTheTable() throws Exception {
        Path path = folder.resolve("changed");
        Schema schema = Schema.parse("n: int32");
        try (TableWriter writer = TableWriter.open(path, schema)) {
            writer.appendRow(7);
            writer.commit();
        }
        Dataset beforeChange = Arrowwood.open(path);
        try (TableWriter writer = TableWriter.open(path, Schema.parse("n: int64, vol: float64"))) {
            writer.appendRow(1L << 40, 0.5);
            writer.commit();
        }
        Dataset table = Arrowwood.open(path);
        assertEquals(7L, table.row(0).get(0));
        assertNull(table.row(0).get(1));
        assertEquals(1L << 40, table.row(1).get(0));
        assertEquals(0.5, table.row(1).get(1));
        assertEquals(1, beforeChange.rowCount());
        assertEquals(2, beforeChange.refresh().rowCount());
        IllegalArgumentException failure =
                assertThrows(IllegalArgumentException.class, () -> TableWriter.open(path, schema));
        assertTrue(failure.getMessage().contains("'vol' is not in the given one"), failure.getMessage());
    }

    @Test
    void fileWithoutTableHasNoPositions() throws Exception {
        assertEquals(Map.of(), Arrowwood.open(Samples.writeNumbers(folder, 3)).positions());
    }

    @Test
    void durableCommitsOfManyThreadsKeepAllRows() throws Exception {
        int threadCount = 8;
        int commitsPerThread = 50;
        TableWriter writer = openWriter();
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < threadCount; i++) {
            int thread = i;
            tasks.add(() -> {
                for (int commit = 0; commit < commitsPerThread; commit++) {
                    writer.appendRow(thread * commitsPerThread + commit);
                    writer.commitDurably(Map.of("thread " + thread, (long) commit));
                    assertTrue(writer.progress().durableRows() > commit);
                }
                return null;
            });
        }
        try (ExecutorService executor = Executors.newFixedThreadPool(threadCount)) {
            for (Future<Void> result : executor.invokeAll(tasks, Await.TIMEOUT.toSeconds(), TimeUnit.SECONDS)) {
                result.get();
            }
        }
        assertEquals(threadCount * commitsPerThread, writer.progress().durableRows());
        writer.close();
        assertThrows(IllegalStateException.class, writer::waitDurable);
        Dataset table = Arrowwood.open(folder.resolve("table"));
        Set<Object> numbers = new HashSet<>();
        table.forEach(row -> numbers.add(row.get(0)));
        assertEquals(threadCount * commitsPerThread, numbers.size());
        assertEquals(threadCount, table.positions().size());
        assertEquals(
                Set.of(commitsPerThread - 1L), new HashSet<>(table.positions().values()));
    }
}
