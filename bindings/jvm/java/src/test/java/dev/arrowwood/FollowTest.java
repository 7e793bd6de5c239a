package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that followers and subscribers get each row of a growing table once, in order, whatever process writes it. */
class FollowTest {
    private static final int ROW_COUNT = 20_000;
    private static final int COMMIT_ROWS = 1_000;
    /** A start in the middle of the table. */
    private static final int MIDDLE_ROW = 7_000;

    private static final List<Long> ALL_NUMBERS =
            LongStream.range(0, ROW_COUNT).boxed().toList();

    @TempDir
    Path folder;

    private static List<Long> numbers(Dataset rows) {
        return rows.column("n").asLong().stream().boxed().toList();
    }

    /** A thread that follows a table until it has received all rows. */
    private static class Follower {
        final CompletableFuture<List<Long>> received = new CompletableFuture<>();
        private final AtomicLong nextRow = new AtomicLong();

        Follower(Path table, Thread.Builder threads, long start) {
            threads.start(() -> {
                try {
                    received.complete(follow(table, start));
                } catch (Throwable e) {
                    // Passed to the thread of the test, which waits for the result.
                    received.completeExceptionally(e);
                }
            });
        }

        private List<Long> follow(Path table, long start) throws Exception {
            List<Long> numbers = new ArrayList<>();
            try (Follow follow = openWithRows(table, start).follow(start)) {
                for (Dataset rows : follow) {
                    numbers.addAll(numbers(rows));
                    nextRow.set(follow.nextRow());
                    if (follow.nextRow() >= ROW_COUNT) {
                        break;
                    }
                }
            }
            return numbers;
        }

        /** Waits until the thread has received the rows up to a number, or has failed. */
        void awaitRows(long rowCount) throws Exception {
            Await.until(() -> nextRow.get() >= rowCount || received.isDone(), rowCount + " rows are received");
        }

        List<Long> awaitAll() throws Exception {
            return Await.result(received, "all rows are received");
        }
    }

    /** Opens a table once it has the given number of rows, because a follower can't start behind the end. */
    private static Dataset openWithRows(Path path, long rowCount) throws Exception {
        AtomicReference<Dataset> table = new AtomicReference<>(Arrowwood.open(path));
        Await.until(
                () -> table.updateAndGet(Dataset::refresh).rowCount() >= rowCount,
                "the table has " + rowCount + " rows");
        return table.get();
    }

    /** Writes lines to a writer process that make it commit the rows of a range. */
    private interface RowSource {
        void writeRows(Writer lines, int start, int end) throws IOException;
    }

    private void assertFollowed(Path table, Process writer, RowSource source) throws Exception {
        Follower platform = new Follower(table, Thread.ofPlatform(), 0);
        Follower virtual = new Follower(table, Thread.ofVirtual(), 0);
        Follower fromMiddle = new Follower(table, Thread.ofVirtual(), MIDDLE_ROW);
        CollectingSubscriber subscriber = new CollectingSubscriber(ROW_COUNT);
        try (Follow follow = Arrowwood.open(table).follow(0)) {
            follow.publisher().subscribe(subscriber);
            try (Writer lines = writer.outputWriter()) {
                // Waiting for one follower makes the others sometimes lag, and sometimes wait for rows.
                for (int start = 0; start < ROW_COUNT; start += COMMIT_ROWS) {
                    source.writeRows(lines, start, start + COMMIT_ROWS);
                    lines.flush();
                    platform.awaitRows(start + COMMIT_ROWS);
                }
            }
            assertEquals(ALL_NUMBERS, platform.awaitAll());
            assertEquals(ALL_NUMBERS, virtual.awaitAll());
            assertEquals(ALL_NUMBERS.subList(MIDDLE_ROW, ROW_COUNT), fromMiddle.awaitAll());
            Await.countDown(subscriber.complete, "all rows are published");
            assertEquals(ALL_NUMBERS, subscriber.numbers);
        }
        Await.countDown(subscriber.terminated, "the publisher has ended");
        assertNull(subscriber.failure);
        assertEquals(0, Await.exitStatus(writer, "the writer"));
    }

    /** A subscriber that requests one dataset at a time. */
    private static class CollectingSubscriber implements Flow.Subscriber<Dataset> {
        final List<Long> numbers = Collections.synchronizedList(new ArrayList<>());
        /** Reaches zero when the expected number of rows was received. */
        final CountDownLatch complete = new CountDownLatch(1);
        /** Reaches zero when {@code onError} or {@code onComplete} is called. */
        final CountDownLatch terminated = new CountDownLatch(1);

        private final int expectedRows;
        volatile Throwable failure;
        volatile Flow.Subscription subscription;

        CollectingSubscriber(int expectedRows) {
            this.expectedRows = expectedRows;
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            this.subscription = subscription;
            subscription.request(1);
        }

        @Override
        public void onNext(Dataset rows) {
            numbers.addAll(numbers(rows));
            if (numbers.size() >= expectedRows) {
                complete.countDown();
            }
            subscription.request(1);
        }

        @Override
        public void onError(Throwable e) {
            failure = e;
            terminated.countDown();
        }

        @Override
        public void onComplete() {
            terminated.countDown();
        }
    }

    @Test
    void tableOfRustWriterIsFollowed() throws Exception {
        Path table = folder.resolve("rust");
        Programs.run(Programs.arrowwood(), "create", table, "--schema", "n: int64 not null", "--segment-rows", "3000");
        Process writer = new ProcessBuilder(Programs.arrowwood().toString(), "append", table.toString())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        assertFollowed(table, writer, (lines, start, end) -> {
            for (int n = start; n < end; n++) {
                lines.write("{\"n\": " + n + "}\n");
            }
        });
    }

    @Test
    void tableOfPythonWriterIsFollowed() throws Exception {
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
        assertFollowed(table, writer, (lines, start, end) -> lines.write(end + "\n"));
        assertEquals(ROW_COUNT, Arrowwood.open(table).rowCount());
    }

    @Test
    void pythonReadsTableOfJavaWriter() throws Exception {
        assumeTrue(Programs.python().isPresent(), "there is no Python with Arrowwood");
        Path table = folder.resolve("java");
        record Reading(Instant ts, String sensor, double value) {}
        try (TableWriter writer = TableWriter.open(
                table,
                Schema.of(Reading.class),
                WriterOptions.DEFAULT.sortedBy("ts").dictionary("sensor"))) {
            for (int i = 0; i < 100; i++) {
                writer.append(new Reading(Instant.ofEpochSecond(i), i % 2 == 0 ? "a" : "b", i + 0.5));
            }
            writer.commit();
            // Read while the writer is still open.
            String output = Programs.run(
                    Programs.python().get(),
                    "-c",
                    "import sys, arrowwood as aw; ds = aw.open(sys.argv[1]); "
                            + "print(len(ds), ds['value'].sum(), ds[3]['sensor'], ds[3]['ts'].isoformat())",
                    table);
            assertEquals("100 5000.0 b 1970-01-01T00:00:03+00:00", output.strip());
        }
    }

    private Path createEmptyTable() throws Exception {
        Path table = folder.resolve("quiet");
        TableWriter.open(table, Schema.parse("n: int64")).close();
        return table;
    }

    @Test
    void closeEndsIterationOfWaitingThread() throws Exception {
        for (boolean isVirtual : new boolean[] {false, true}) {
            Follow follow = Arrowwood.open(createEmptyTable()).follow(0);
            CompletableFuture<Boolean> hasNext = new CompletableFuture<>();
            Thread.Builder threads = isVirtual ? Thread.ofVirtual() : Thread.ofPlatform();
            Thread thread =
                    threads.start(() -> hasNext.complete(follow.iterator().hasNext()));
            Await.waitingForRows(thread);
            follow.close();
            assertEquals(false, Await.result(hasNext, "the end of the iteration"));
            Await.termination(thread);
        }
    }

    @Test
    void interruptEndsNextAndIteration() throws Exception {
        try (Follow follow = Arrowwood.open(createEmptyTable()).follow(0)) {
            CompletableFuture<Throwable> failure = new CompletableFuture<>();
            Thread waiting = Thread.ofPlatform().start(() -> failure.complete(assertInterrupted(follow)));
            Await.waitingForRows(waiting);
            waiting.interrupt();
            assertInstanceOf(InterruptedException.class, Await.result(failure, "an interrupt ends the call"));

            CompletableFuture<Boolean> endedInterrupted = new CompletableFuture<>();
            Thread iterating = Thread.ofPlatform()
                    .start(() -> endedInterrupted.complete(!follow.iterator().hasNext()
                            && Thread.currentThread().isInterrupted()));
            iterating.interrupt();
            assertTrue(Await.result(endedInterrupted, "an interrupt ends the iteration"));
        }
    }

    private static InterruptedException assertInterrupted(Follow follow) {
        return assertThrows(InterruptedException.class, () -> follow.next(Duration.ofDays(1)));
    }

    /** Checks that no row is lost if it arrives after the interrupt, while the library's call still waits. */
    @Test
    void rowsReceivedForInterruptedVirtualThreadAreKeptForNextCall() throws Exception {
        Path table = createEmptyTable();
        try (TableWriter writer = TableWriter.open(table);
                Follow follow = Arrowwood.open(table).follow(0)) {
            for (long n = 0; n < 20; n++) {
                CompletableFuture<Throwable> failure = new CompletableFuture<>();
                Thread waiting = Thread.ofVirtual().start(() -> failure.complete(assertInterrupted(follow)));
                Await.waitingForRows(waiting);
                waiting.interrupt();
                Await.result(failure, "an interrupt ends the call");
                writer.appendRow(n);
                writer.commit();
                assertEquals(n, follow.nextRow());

                CompletableFuture<Optional<Dataset>> rows = new CompletableFuture<>();
                Thread.Builder threads = n % 2 == 0 ? Thread.ofPlatform() : Thread.ofVirtual();
                threads.start(() -> rows.complete(assertDoesNotThrow(() -> follow.next(Await.TIMEOUT))));
                Dataset received = Await.result(rows, "the next call").orElseThrow();
                assertEquals(List.of(n), numbers(received));
                assertEquals(n + 1, follow.nextRow());
            }
        }
    }

    @Test
    void waitingVirtualThreadsReleaseTheirCarriers() throws Exception {
        Path table = createEmptyTable();
        Dataset dataset = Arrowwood.open(table);
        List<CompletableFuture<Long>> rowCounts = new ArrayList<>();
        // More threads than carriers.
        for (int i = 0; i < 200; i++) {
            CompletableFuture<Long> rowCount = new CompletableFuture<>();
            rowCounts.add(rowCount);
            Thread.ofVirtual().start(() -> {
                try (Follow follow = dataset.follow(0)) {
                    rowCount.complete(follow.next(Await.TIMEOUT).orElseThrow().rowCount());
                } catch (Throwable e) {
                    // Passed to the thread of the test, which waits for the result.
                    rowCount.completeExceptionally(e);
                }
            });
        }
        // Another virtual thread can run only if the waiting ones don't hold all carriers.
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
        for (CompletableFuture<Long> rowCount : rowCounts) {
            assertEquals(1, Await.result(rowCount, "all threads have the row"));
        }
    }

    @Test
    void requestOfZeroDatasetsIsReported() throws Exception {
        try (Follow follow = Arrowwood.open(createEmptyTable()).follow(0)) {
            CollectingSubscriber subscriber = new CollectingSubscriber(1) {
                @Override
                public void onSubscribe(Flow.Subscription subscription) {
                    subscription.request(0);
                }
            };
            follow.publisher().subscribe(subscriber);
            Await.countDown(subscriber.terminated, "onError is called");
            assertInstanceOf(IllegalArgumentException.class, subscriber.failure);
        }
    }

    /** Checks that a demand below zero isn't taken for one that overflowed. */
    @Test
    void negativeRequestIsReportedAndDeliversNothing() throws Exception {
        Path table = createEmptyTable();
        try (TableWriter writer = TableWriter.open(table)) {
            for (long n = 0; n < 2; n++) {
                writer.appendRow(n);
                writer.commit();
            }
        }
        for (long request : new long[] {-1, Long.MIN_VALUE, Long.MIN_VALUE + 1}) {
            try (Follow follow = Arrowwood.open(table).follow(0)) {
                CollectingSubscriber subscriber = new CollectingSubscriber(1) {
                    @Override
                    public void onSubscribe(Flow.Subscription subscription) {
                        this.subscription = subscription;
                    }
                };
                follow.publisher().subscribe(subscriber);
                Await.until(() -> subscriber.subscription != null, "onSubscribe is called");
                subscriber.subscription.request(request);
                Await.countDown(subscriber.terminated, "onError is called");
                assertInstanceOf(IllegalArgumentException.class, subscriber.failure);
                assertTrue(subscriber.failure.getMessage().contains(String.valueOf(request)));
                assertEquals(List.of(), subscriber.numbers);
            }
        }
    }

    @Test
    void subscriberIsToldThatTableCannotBeFollowed() throws Exception {
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
                CollectingSubscriber subscriber = new CollectingSubscriber(1);
                follow.publisher().subscribe(subscriber);
                Await.countDown(subscriber.terminated, "onError is called");
                assertInstanceOf(IndexOutOfBoundsException.class, subscriber.failure);
                assertNotNull(subscriber.subscription, "onSubscribe is called first");
                assertEquals(List.of(), subscriber.numbers);
                assertThrows(
                        NullPointerException.class, () -> follow.publisher().subscribe(null));
            }
        }
    }

    /** A subscriber that throws an error in one of its methods. */
    private static final class ThrowingSubscriber implements Flow.Subscriber<Dataset> {
        final List<String> calls = Collections.synchronizedList(new ArrayList<>());
        final CompletableFuture<Thread> terminatingThread = new CompletableFuture<>();
        private final String throwingMethod;

        ThrowingSubscriber(String throwingMethod) {
            this.throwingMethod = throwingMethod;
        }

        private void onCall(String method) {
            calls.add(method);
            if (method.equals("onError") || method.equals("onComplete")) {
                terminatingThread.complete(Thread.currentThread());
            }
            if (method.equals(throwingMethod)) {
                throw new AssertionError("thrown in " + method);
            }
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            // An invalid request makes the publisher call onError.
            subscription.request(throwingMethod.equals("onError") ? 0 : 1);
            onCall("onSubscribe");
        }

        @Override
        public void onNext(Dataset rows) {
            onCall("onNext");
        }

        @Override
        public void onError(Throwable e) {
            onCall("onError");
        }

        @Override
        public void onComplete() {
            onCall("onComplete");
        }
    }

    @Test
    void exceptionsOfSubscribersDoNotEscapeThePublisher() throws Exception {
        Map<String, List<String>> expectedCalls = Map.of(
                "onSubscribe", List.of("onSubscribe", "onError"),
                "onNext", List.of("onSubscribe", "onNext", "onError"),
                "onError", List.of("onSubscribe", "onError"),
                "onComplete", List.of("onSubscribe", "onNext", "onComplete"));
        Path table = createEmptyTable();
        try (TableWriter writer = TableWriter.open(table)) {
            writer.appendRow(1);
            writer.commit();
        }
        List<Throwable> uncaught = Collections.synchronizedList(new ArrayList<>());
        Thread.UncaughtExceptionHandler previousHandler = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> uncaught.add(e));
        try {
            for (String throwingMethod : expectedCalls.keySet()) {
                ThrowingSubscriber subscriber = new ThrowingSubscriber(throwingMethod);
                List<String> expected = expectedCalls.get(throwingMethod);
                try (Follow follow = Arrowwood.open(table).follow(0)) {
                    follow.publisher().subscribe(subscriber);
                    // The publisher calls onComplete only when the follower is closed.
                    int callsBeforeClose = expected.size() - (throwingMethod.equals("onComplete") ? 1 : 0);
                    Await.until(() -> subscriber.calls.size() >= callsBeforeClose, "the subscriber is called");
                }
                Await.termination(Await.result(subscriber.terminatingThread, "the subscription has ended"));
                assertEquals(expected, subscriber.calls);
            }
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(previousHandler);
        }
        assertEquals(List.of(), uncaught);
    }

    @Test
    void nextFailsIfTableWasMoved() throws Exception {
        Path table = createEmptyTable();
        try (Follow follow = Arrowwood.open(table).follow(0)) {
            Files.move(table, folder.resolve("elsewhere"));
            RuntimeException failure = assertThrows(RuntimeException.class, () -> follow.next(Duration.ofMillis(10)));
            assertInstanceOf(ArrowwoodException.class, failure);
            assertTrue(failure.getMessage().contains("quiet"), failure.getMessage());
        }
    }
}
