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
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Commits: with positions, and durable ones of many threads. */
class WriterTest {
    @TempDir
    Path folder;

    private TableWriter writer() throws Exception {
        return TableWriter.open(folder.resolve("table"), Schema.parse("n: int64"));
    }

    @Test
    void positionsArePartOfACommit() throws Exception {
        try (TableWriter writer = writer()) {
            assertEquals(Map.of(), writer.positions());
            writer.appendRow(1);
            writer.commit(Map.of("kafka/ticks/0", 17L, "kafka/ticks/1", -3L));
            writer.appendRow(2);
            Dataset before = Arrowwood.open(folder.resolve("table"));
            writer.commitDurably(Map.of("kafka/ticks/0", 18L));
            assertEquals(2, writer.progress().durableRows());
            assertEquals(Map.of("kafka/ticks/0", 18L, "kafka/ticks/1", -3L), writer.positions());
            assertEquals(17L, before.positions().get("kafka/ticks/0"));
            assertEquals(18L, before.refresh().positions().get("kafka/ticks/0"));
            writer.appendRow(3);
            for (String bad : List.of("", "a\nb", "x".repeat(256), "\0")) {
                assertThrows(IllegalArgumentException.class, () -> writer.commit(Map.of(bad, 1L)), bad);
            }
            assertEquals(2, writer.progress().committedRows());
            writer.commit(Map.of());
        }
        Dataset table = Arrowwood.open(folder.resolve("table"));
        assertEquals(3, table.rowCount());
        assertEquals(Map.of("kafka/ticks/0", 18L, "kafka/ticks/1", -3L), table.positions());
        try (TableWriter again = writer()) {
            assertEquals(18L, again.positions().get("kafka/ticks/0"));
        }
    }

    /** A consumer that failed in the middle of a batch left half of it, without its position, and repeated it after its restart. */
    @Test
    void anExceptionNeverCommitsHalfABatch() throws Exception {
        List<String> told = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                told.add(line.getLevel() + " " + new SimpleFormatter().formatMessage(line));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("dev.arrowwood");
        logger.addHandler(handler);
        try {
            assertThrows(IllegalStateException.class, () -> consume(true));
            consume(false);
        } finally {
            logger.removeHandler(handler);
        }
        Path table = folder.resolve("table");
        assertEquals(
                List.of("WARNING 5 rows were discarded: the writer of " + table + " was closed without a commit"),
                told);
        Dataset rows = Arrowwood.open(table);
        assertEquals(Map.of("kafka/t/0", 10L), rows.positions());
        assertEquals(
                LongStream.range(0, 10).boxed().toList(),
                rows.stream().map(row -> row.getLong("n")).toList());
    }

    private void consume(boolean fails) throws Exception {
        try (TableWriter writer = writer()) {
            long offset = writer.positions().getOrDefault("kafka/t/0", 0L);
            for (int i = 0; i < 10; i++, offset++) {
                if (fails && i == 5) {
                    throw new IllegalStateException("a message that can't be parsed");
                }
                writer.appendRow(offset);
            }
            writer.commit(Map.of("kafka/t/0", offset));
        }
    }

    /** A refresh behind dropped rows found nothing new until the live segment was full. */
    @Test
    void aRefreshLeavesOutWhatWasDropped() throws Exception {
        Path table = folder.resolve("table");
        WriterOptions options = WriterOptions.DEFAULT.segmentRows(4);
        try (TableWriter writer = TableWriter.open(table, Schema.parse("n: int64"), options)) {
            for (long n = 0; n < 10; n++) {
                writer.appendRow(n);
            }
            writer.commit();
            Dataset rows = Arrowwood.open(table);
            assertEquals(8, writer.dropBefore(8));
            Dataset left = rows.refresh();
            assertEquals(8, left.firstRow());
            assertEquals(
                    List.of(8L, 9L), left.stream().map(row -> row.getLong("n")).toList());
            assertEquals(10, rows.rowCount());
        }
    }

    /** It returned normally: the rows were synced, and nowhere. */
    @Test
    void rowsOfATableThatWasRemovedAreNotDurable() throws Exception {
        Path table = folder.resolve("table");
        TableWriter writer = writer();
        writer.appendRow(1L);
        writer.commit();
        try (Stream<Path> files = Files.list(table)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(table);
        writer.appendRow(2L);
        RuntimeException refused = assertThrows(RuntimeException.class, writer::commitDurably);
        assertInstanceOf(ArrowwoodException.class, refused);
        assertThrows(RuntimeException.class, writer::commitDurably);
    }

    /** A writer with a newer schema changes the table's. */
    @Test
    void aSchemaChanges() throws Exception {
        Path table = folder.resolve("changed");
        try (TableWriter writer = TableWriter.open(table, Schema.parse("n: int32"))) {
            writer.appendRow(7);
            writer.commit();
        }
        Dataset before = Arrowwood.open(table);
        try (TableWriter writer = TableWriter.open(table, Schema.parse("n: int64, vol: float64"))) {
            writer.appendRow(1L << 40, 0.5);
            writer.commit();
        }
        Dataset rows = Arrowwood.open(table);
        assertEquals(7L, rows.row(0).get(0));
        assertNull(rows.row(0).get(1));
        assertEquals(1L << 40, rows.row(1).get(0));
        assertEquals(0.5, rows.row(1).get(1));
        assertEquals(1, before.rowCount());
        assertEquals(2, before.refresh().rowCount());
        Schema narrow = Schema.parse("n: int32");
        IllegalArgumentException refused =
                assertThrows(IllegalArgumentException.class, () -> TableWriter.open(table, narrow));
        assertTrue(refused.getMessage().contains("'vol' is not in the given one"), refused.getMessage());
    }

    @Test
    void whatIsNoTableHasNoPositions() throws Exception {
        assertEquals(Map.of(), Arrowwood.open(Samples.numbers(folder, 3)).positions());
    }

    @Test
    void threadsThatCommitDurablyKeepTheirRows() throws Exception {
        int threads = 8;
        int commits = 50;
        TableWriter writer = writer();
        try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            List<Callable<Void>> work = IntStream.range(0, threads)
                    .mapToObj(thread -> (Callable<Void>) () -> {
                        for (int i = 0; i < commits; i++) {
                            writer.appendRow(thread * commits + i);
                            writer.commitDurably(Map.of("thread " + thread, (long) i));
                            assertTrue(writer.progress().durableRows() > i);
                        }
                        return null;
                    })
                    .toList();
            for (Future<Void> done : pool.invokeAll(work, Await.PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                done.get();
            }
        }
        assertEquals(threads * commits, writer.progress().durableRows());
        writer.close();
        assertThrows(IllegalStateException.class, writer::waitDurable);
        Dataset table = Arrowwood.open(folder.resolve("table"));
        Set<Object> numbers = new HashSet<>();
        table.forEach(row -> numbers.add(row.get(0)));
        assertEquals(threads * commits, numbers.size());
        assertEquals(threads, table.positions().size());
        assertEquals(Set.of(commits - 1L), new HashSet<>(table.positions().values()));
    }
}
