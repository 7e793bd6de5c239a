package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tables that other processes write, followed: every row comes once, in order. */
class FollowTest {
    private static final int ROWS = 20_000;

    @TempDir
    Path folder;

    private static List<Long> numbers(Dataset rows) {
        return rows.column("n").asLong().stream().boxed().toList();
    }

    private static final List<Long> EVERY = LongStream.range(0, ROWS).boxed().toList();

    /** A thread that follows a table until all rows have come. */
    private static class Follower {
        final CompletableFuture<List<Long>> seen = new CompletableFuture<>();
        private final AtomicLong next = new AtomicLong();

        Follower(Path table, Thread.Builder thread, long start) {
            thread.start(() -> {
                List<Long> numbers = new ArrayList<>();
                try (Follow follow = withRows(table, start).follow(start)) {
                    for (Dataset rows : follow) {
                        numbers.addAll(numbers(rows));
                        next.set(follow.nextRow());
                        if (follow.nextRow() >= ROWS) {
                            break;
                        }
                    }
                    seen.complete(numbers);
                } catch (Throwable e) {
                    seen.completeExceptionally(e);
                }
            });
        }

        /** Waits until it has so many rows, or has failed. */
        void reaches(long rows) throws Exception {
            Await.until(() -> next.get() >= rows || seen.isDone(), rows + " rows are seen");
        }

        List<Long> all() throws Exception {
            return Await.value(seen, "all rows are seen");
        }
    }

    /** The table, as soon as it has so many rows: nobody begins behind its end. */
    private static Dataset withRows(Path path, long rows) throws Exception {
        Dataset[] table = {Arrowwood.open(path)};
        Await.until(() -> (table[0] = table[0].refresh()).rowCount() >= rows, rows + " rows are there");
        return table[0];
    }

    /** What has a writer commit the rows from one number to another. */
    private interface Feed {
        void rows(Writer lines, int start, int end) throws IOException;
    }

    private void isFollowed(Path table, Process writer, Feed feed) throws Exception {
        Follower platform = new Follower(table, Thread.ofPlatform(), 0);
        Follower virtual = new Follower(table, Thread.ofVirtual(), 0);
        Follower middle = new Follower(table, Thread.ofVirtual(), 7_000);
        Collected published = new Collected(ROWS);
        try (Follow follow = Arrowwood.open(table).follow(0)) {
            follow.publisher().subscribe(published);
            try (Writer lines = writer.outputWriter()) {
                // Some rows come while others are looked at, and now and then all have been seen.
                for (int start = 0; start < ROWS; start += 1_000) {
                    feed.rows(lines, start, start + 1_000);
                    lines.flush();
                    platform.reaches(start + 1_000);
                }
            }
            assertEquals(EVERY, platform.all());
            assertEquals(EVERY, virtual.all());
            assertEquals(EVERY.subList(7_000, ROWS), middle.all());
            Await.zero(published.all, "all rows are published");
            assertEquals(EVERY, published.numbers);
        }
        Await.zero(published.ended, "the publisher has ended");
        assertNull(published.failure);
        assertEquals(0, Await.status(writer, "the writer"));
    }

    /** A subscriber that asks for one dataset at a time. */
    private static class Collected implements Flow.Subscriber<Dataset> {
        final List<Long> numbers = Collections.synchronizedList(new ArrayList<>());
        final CountDownLatch all = new CountDownLatch(1);
        final CountDownLatch ended = new CountDownLatch(1);
        private final int wanted;
        volatile Throwable failure;
        volatile Flow.Subscription subscription;

        Collected(int wanted) {
            this.wanted = wanted;
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            given.request(1);
        }

        @Override
        public void onNext(Dataset rows) {
            numbers.addAll(numbers(rows));
            if (numbers.size() >= wanted) {
                all.countDown();
            }
            subscription.request(1);
        }

        @Override
        public void onError(Throwable e) {
            failure = e;
            ended.countDown();
        }

        @Override
        public void onComplete() {
            ended.countDown();
        }
    }

    @Test
    void aTableThatRustWrites() throws Exception {
        Path table = folder.resolve("rust");
        Programs.run(Programs.command(), "create", table, "--schema", "n: int64 not null", "--segment-rows", "3000");
        Process writer = new ProcessBuilder(Programs.command().toString(), "append", table.toString())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        isFollowed(table, writer, (lines, start, end) -> {
            for (int n = start; n < end; n++) {
                lines.write("{\"n\": " + n + "}\n");
            }
        });
    }

    @Test
    void aTableThatPythonWrites() throws Exception {
        assumeTrue(Programs.python().isPresent(), "there is no Python with Arrowwood");
        Path table = folder.resolve("python");
        Path script = Files.writeString(folder.resolve("write.py"), """
            import sys
            import arrowwood as aw, pyarrow as pa
            schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
            with aw.writer(sys.argv[1], schema, segment_rows=3000) as writer:
                print("open", flush=True)
                for line in sys.stdin:
                    for start in range(writer.rows, int(line), 100):
                        writer.append({"n": list(range(start, start + 100))})
                        writer.commit()
            """);
        Process writer = Programs.start(Programs.python().get(), script, table);
        assertEquals("open", writer.inputReader().readLine());
        isFollowed(table, writer, (lines, start, end) -> lines.write(end + "\n"));
        assertEquals(ROWS, Arrowwood.open(table).rowCount());
    }

    @Test
    void whatJavaWritesPythonReads() throws Exception {
        assumeTrue(Programs.python().isPresent(), "there is no Python with Arrowwood");
        Path table = folder.resolve("java");
        record Reading(java.time.Instant ts, String sensor, double value) {}
        try (TableWriter writer = TableWriter.open(
                table,
                Schema.of(Reading.class),
                WriterOptions.DEFAULT.sortedBy("ts").dictionary("sensor"))) {
            for (int i = 0; i < 100; i++) {
                writer.append(new Reading(java.time.Instant.ofEpochSecond(i), i % 2 == 0 ? "a" : "b", i + 0.5));
            }
            writer.commit();
            String said = Programs.run(
                    Programs.python().get(),
                    "-c",
                    "import sys, arrowwood as aw; ds = aw.open(sys.argv[1]); "
                            + "print(len(ds), ds['value'].sum(), ds[3]['sensor'], ds[3]['ts'].isoformat())",
                    table);
            assertEquals("100 5000.0 b 1970-01-01T00:00:03+00:00", said.strip());
        }
    }

    private Path quietTable() throws Exception {
        Path table = folder.resolve("quiet");
        TableWriter.open(table, Schema.parse("n: int64")).close();
        return table;
    }

    @Test
    void closingEndsTheIteration() throws Exception {
        for (boolean virtual : new boolean[] {false, true}) {
            Follow follow = Arrowwood.open(quietTable()).follow(0);
            CompletableFuture<Boolean> hasNext = new CompletableFuture<>();
            Runnable wait = () -> hasNext.complete(follow.iterator().hasNext());
            Thread thread = virtual
                    ? Thread.ofVirtual().start(wait)
                    : Thread.ofPlatform().start(wait);
            Await.waitingForRows(thread);
            follow.close();
            assertEquals(false, Await.value(hasNext, "the end of the iteration"));
            Await.end(thread);
        }
    }

    @Test
    void anInterruptEndsTheWaiting() throws Exception {
        try (Follow follow = Arrowwood.open(quietTable()).follow(0)) {
            CompletableFuture<Throwable> failure = new CompletableFuture<>();
            Thread thread = Thread.ofPlatform()
                    .start(() -> failure.complete(
                            assertThrows(InterruptedException.class, () -> follow.next(Duration.ofDays(1)))));
            Await.waitingForRows(thread);
            thread.interrupt();
            assertInstanceOf(InterruptedException.class, Await.value(failure, "an interrupt ends the waiting"));
            CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
            Thread iterating = Thread.ofPlatform()
                    .start(() -> interrupted.complete(!follow.iterator().hasNext()
                            && Thread.currentThread().isInterrupted()));
            iterating.interrupt();
            assertTrue(Await.value(interrupted, "an interrupt ends the iteration"));
        }
    }

    /** The library goes on waiting for a moment, and may receive rows meanwhile. */
    @Test
    void rowsThatComeForAnInterruptedVirtualThreadAreReturnedByTheNextCall() throws Exception {
        Path table = quietTable();
        try (TableWriter writer = TableWriter.open(table);
                Follow follow = Arrowwood.open(table).follow(0)) {
            for (long n = 0; n < 20; n++) {
                CompletableFuture<Throwable> failure = new CompletableFuture<>();
                Thread waiting = Thread.ofVirtual()
                        .start(() -> failure.complete(
                                assertThrows(InterruptedException.class, () -> follow.next(Duration.ofDays(1)))));
                Await.waitingForRows(waiting);
                waiting.interrupt();
                Await.value(failure, "an interrupt ends the waiting");
                writer.appendRow(n);
                writer.commit();
                assertEquals(n, follow.nextRow());
                CompletableFuture<Optional<Dataset>> rows = new CompletableFuture<>();
                Thread.Builder threads = n % 2 == 0 ? Thread.ofPlatform() : Thread.ofVirtual();
                threads.start(() -> rows.complete(assertDoesNotThrow(() -> follow.next(Await.PATIENCE))));
                assertEquals(
                        List.of(n), numbers(Await.value(rows, "the next call").orElseThrow()));
                assertEquals(n + 1, follow.nextRow());
            }
        }
    }

    @Test
    void thousandsOfVirtualThreadsWaitOnFewCarriers() throws Exception {
        Path table = quietTable();
        Dataset open = Arrowwood.open(table);
        List<CompletableFuture<Long>> seen = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            CompletableFuture<Long> one = new CompletableFuture<>();
            seen.add(one);
            Thread.ofVirtual().start(() -> {
                try (Follow follow = open.follow(0)) {
                    one.complete(follow.next(Await.PATIENCE).orElseThrow().rowCount());
                } catch (Throwable e) {
                    one.completeExceptionally(e);
                }
            });
        }
        // Carriers are free: another virtual thread comes to its turn while all wait.
        Thread.ofVirtual()
                .start(() -> {
                    try (TableWriter writer = TableWriter.open(table)) {
                        writer.appendRow(1);
                        writer.commit();
                    } catch (Exception e) {
                        throw new AssertionError(e);
                    }
                })
                .join();
        for (CompletableFuture<Long> one : seen) {
            assertEquals(1, Await.value(one, "all threads have the row"));
        }
    }

    @Test
    void aSubscriberThatAsksForNothingSensibleIsTold() throws Exception {
        try (Follow follow = Arrowwood.open(quietTable()).follow(0)) {
            Collected bad = new Collected(1) {
                @Override
                public void onSubscribe(Flow.Subscription given) {
                    given.request(0);
                }
            };
            follow.publisher().subscribe(bad);
            Await.zero(bad.ended, "the subscriber is told");
            assertInstanceOf(IllegalArgumentException.class, bad.failure);
        }
    }

    @Test
    void aSubscriberHearsThatATableCantBeFollowed() throws Exception {
        Path table = folder.resolve("dropped");
        WriterOptions options = WriterOptions.DEFAULT.segmentRows(100);
        try (TableWriter writer = TableWriter.open(table, Schema.parse("n: int64"), options)) {
            for (long n = 0; n < 1_000; n++) {
                writer.appendRow(n);
            }
            writer.commit();
            try (Follow follow = Arrowwood.open(table).follow(0)) {
                writer.dropBefore(500);
                writer.appendRow(1_000L);
                writer.commit();
                Collected told = new Collected(1);
                follow.publisher().subscribe(told);
                Await.zero(told.ended, "the subscriber is told");
                assertInstanceOf(IndexOutOfBoundsException.class, told.failure);
                assertTrue(told.subscription != null, "onSubscribe comes first");
                assertEquals(List.of(), told.numbers);
                assertThrows(
                        NullPointerException.class, () -> follow.publisher().subscribe(null));
            }
        }
    }

    /** A subscriber that throws something of its own in one of its methods. */
    private static final class Throwing implements Flow.Subscriber<Dataset> {
        final List<String> called = Collections.synchronizedList(new ArrayList<>());
        final CompletableFuture<Thread> ended = new CompletableFuture<>();
        private final String where;

        Throwing(String where) {
            this.where = where;
        }

        private void call(String name) {
            called.add(name);
            if (name.equals("onError") || name.equals("onComplete")) {
                ended.complete(Thread.currentThread());
            }
            if (name.equals(where)) {
                throw new AssertionError("thrown in " + name);
            }
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            given.request(where.equals("onError") ? 0 : 1);
            call("onSubscribe");
        }

        @Override
        public void onNext(Dataset rows) {
            call("onNext");
        }

        @Override
        public void onError(Throwable e) {
            call("onError");
        }

        @Override
        public void onComplete() {
            call("onComplete");
        }
    }

    @Test
    void whatASubscriberThrowsIsItsOwnToHear() throws Exception {
        Map<String, List<String>> expected = Map.of(
                "onSubscribe", List.of("onSubscribe", "onError"),
                "onNext", List.of("onSubscribe", "onNext", "onError"),
                "onError", List.of("onSubscribe", "onError"),
                "onComplete", List.of("onSubscribe", "onNext", "onComplete"));
        Path table = quietTable();
        try (TableWriter writer = TableWriter.open(table)) {
            writer.appendRow(1);
            writer.commit();
        }
        List<Throwable> uncaught = Collections.synchronizedList(new ArrayList<>());
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> uncaught.add(e));
        try {
            for (String where : expected.keySet()) {
                Throwing subscriber = new Throwing(where);
                try (Follow follow = Arrowwood.open(table).follow(0)) {
                    follow.publisher().subscribe(subscriber);
                    // Closing it is what completes it.
                    int calls = expected.get(where).size() - (where.equals("onComplete") ? 1 : 0);
                    Await.until(() -> subscriber.called.size() >= calls, "the subscriber is called");
                }
                Await.end(Await.value(subscriber.ended, "the subscription has ended"));
                assertEquals(expected.get(where), subscriber.called);
            }
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
        assertEquals(List.of(), uncaught);
    }

    @Test
    void aTableThatIsRemovedIsNotWaitedFor() throws Exception {
        Path table = quietTable();
        try (Follow follow = Arrowwood.open(table).follow(0)) {
            Files.move(table, folder.resolve("elsewhere"));
            var failure = assertThrows(RuntimeException.class, () -> follow.next(Duration.ofMillis(10)));
            assertInstanceOf(ArrowwoodException.class, failure);
            assertTrue(failure.getMessage().contains("quiet"), failure.getMessage());
        }
    }
}
