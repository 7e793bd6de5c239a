package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Owned;
import dev.arrowwood.internal.Subscription;
import dev.arrowwood.internal.Unsigned;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.function.Function;

/**
 * Returns new rows of a table as they are committed, by any process. Obtained from {@link Dataset#follow}.
 *
 * <pre>{@code
 * try (Follow follow = dataset.follow(0)) {
 *     for (Dataset rows : follow) {
 *         System.out.println(rows.rowCount());
 *     }
 * }
 * }</pre>
 *
 * <p>Threads sleep while they wait; virtual threads release their carrier. Closing the follower from another thread
 * ends all waiting within a quarter of a second. Rows that arrive while a thread is interrupted are kept for the next
 * call. Each dataset of rows lives as long as anything refers to it, even when the follower is closed.
 */
public final class Follow implements AutoCloseable, Iterable<Dataset> {
    // How waiting works: a call of the library blocks its thread, holds the handle, and notices neither interrupts nor
    // close(). So next() waits in calls of at most MAX_WAIT_MILLIS, and looks for both between them. close() sets
    // closing, so that withLock() begins no further call, and then takes the handle once the current call returns.
    //
    // A virtual thread must not block its carrier: a thread of WAITERS makes the call for it, and stores the rows in
    // ready. They aren't passed on directly, because the virtual thread may be interrupted meanwhile: the next thread
    // that calls next() gets them first. The lock of the handle guards ready; closing is volatile, and is set once.

    /** The longest wait inside the library, in milliseconds. */
    private static final long MAX_WAIT_MILLIS = 250;

    private static final long NO_WAIT = 0;
    private static final long NANOS_PER_MILLI = 1_000_000;
    /** Half of the range of {@code nanoTime}: 146 years. */
    private static final long MAX_NANOS = Long.MAX_VALUE / 2;

    /** A timeout that the iterator starts again when it ends. */
    private static final Duration FOREVER = Duration.ofDays(1);

    /** Stands for the number of the next committed row. */
    private static final long NEXT = -1;

    /** Waits on behalf of virtual threads, whose carriers a native call would block. */
    private static final ExecutorService WAITERS = Executors.newCachedThreadPool(
            Thread.ofPlatform().daemon().name("arrowwood-follow-", 0).factory());

    private final Dataset table;
    private final long start;
    private final Owned owned;
    /** Rows received, but not returned yet; null if there are none. Guarded by the lock of the handle. */
    private Dataset ready;

    /** Set before the handle is taken, so that no further wait begins. */
    private volatile boolean closing;

    Follow(Dataset table, long start) {
        this.table = table;
        this.start = start == NEXT ? NEXT : Unsigned.row(start);
        MemorySegment handle = Native.retry(call -> {
            call.check((int) Native.FOLLOW.invokeExact(table.handle(), start, call.out, call.error));
            return call.out.get(ADDRESS, 0);
        });
        this.owned = new Owned(this, "follower", handle, Native.FOLLOWER_FREE);
    }

    /**
     * Returns the rows committed since the last call, as soon as there are any.
     *
     * @param timeout how long to wait; zero or less doesn't wait
     * @return the rows, or empty if none were committed in time
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws IllegalStateException if the follower is closed, even while waiting
     * @throws ArrowwoodException.FileChanged if the table was removed, or its last segment truncated
     */
    public Optional<Dataset> next(Duration timeout) throws InterruptedException {
        long end = saturatedAdd(System.nanoTime(), timeout);
        Optional<Dataset> rows = take(NO_WAIT);
        while (rows.isEmpty()) {
            // Rounded up, so that the last wait doesn't end before the timeout.
            long remainingMillis = (end - System.nanoTime() + NANOS_PER_MILLI - 1) / NANOS_PER_MILLI;
            if (remainingMillis <= 0) {
                break;
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            rows = await(Math.min(remainingMillis, MAX_WAIT_MILLIS));
        }
        return rows;
    }

    /** Adds a timeout, capped at 146 years, to a time of {@code nanoTime}. */
    private static long saturatedAdd(long now, Duration timeout) {
        boolean isTooLong = timeout.compareTo(Duration.ofNanos(MAX_NANOS)) > 0;
        return now + (isTooLong ? MAX_NANOS : Math.max(0, timeout.toNanos()));
    }

    /** Waits for rows in the library: a virtual thread has another thread wait for it, and releases its carrier. */
    private Optional<Dataset> await(long millis) throws InterruptedException {
        if (!Thread.currentThread().isVirtual()) {
            return take(millis);
        }
        try {
            CompletableFuture.runAsync(() -> prefetch(millis), WAITERS).get();
        } catch (ExecutionException e) {
            switch (e.getCause()) {
                case RuntimeException failure -> throw failure;
                case Error error -> throw error;
                default -> throw new AssertionError(e);
            }
        }
        return take(NO_WAIT);
    }

    /** Takes the rows that are ready, or else those that arrive within a time. */
    private Optional<Dataset> take(long millis) {
        return withLock(handle -> {
            Dataset rows = ready == null ? poll(handle, millis) : ready;
            ready = null;
            return Optional.ofNullable(rows);
        });
    }

    /** Waits for rows, and stores them for the next {@link #take}. */
    private void prefetch(long millis) {
        withLock(handle -> {
            if (ready == null) {
                ready = poll(handle, millis);
            }
            return ready;
        });
    }

    /** Calls a function with the handle, which no other thread uses meanwhile. */
    private <T> T withLock(Function<MemorySegment, T> work) {
        if (closing) {
            throw new ArrowwoodException.Closed("the follower is closed");
        }
        MemorySegment handle = owned.lock();
        try {
            return work.apply(handle);
        } finally {
            owned.unlock(this);
        }
    }

    /** Returns the rows that arrive within a time, or null. */
    private static Dataset poll(MemorySegment handle, long millis) {
        return Native.retry(call -> {
            call.check((int) Native.FOLLOWER_NEXT.invokeExact(handle, millis, call.out, call.error));
            MemorySegment rows = call.out.get(ADDRESS, 0);
            return rows.address() == 0 ? null : Dataset.wrap(rows, null);
        });
    }

    /**
     * Returns the number of the row after the last one returned.
     *
     * @return the number
     */
    public long nextRow() {
        return withLock(handle -> {
            if (ready != null) {
                return ready.firstRow();
            }
            return Native.call(call -> {
                call.check((int) Native.FOLLOWER_NEXT_ROW.invokeExact(handle, call.out, call.error));
                return call.out.get(JAVA_LONG, 0);
            });
        });
    }

    /**
     * Returns the rows of each call of {@link #next}, waiting without end. The iteration ends when the follower is
     * closed from another thread, or the thread is interrupted; it remains interrupted.
     *
     * @return an iterator, which shares the follower's position
     */
    @Override
    public Iterator<Dataset> iterator() {
        return new Iterator<>() {
            private Optional<Dataset> prefetched = Optional.empty();

            @Override
            public boolean hasNext() {
                while (prefetched.isEmpty() && !isClosed()) {
                    try {
                        prefetched = Follow.this.next(FOREVER);
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                        return false;
                    } catch (ArrowwoodException.Closed e) {
                        return false;
                    }
                }
                return prefetched.isPresent();
            }

            @Override
            public Dataset next() {
                if (!hasNext()) {
                    throw new NoSuchElementException("the follower is closed, or the thread interrupted");
                }
                Dataset rows = prefetched.get();
                prefetched = Optional.empty();
                return rows;
            }
        };
    }

    /**
     * Returns a publisher of the rows from this follower's start on. Each subscriber gets all of them, in a thread of
     * its own, no faster than it requests; it is completed when this follower is closed. Failures are given to
     * {@code onError}, even if the table can't be followed at all: {@code subscribe} throws only if the subscriber is
     * null.
     *
     * @return the publisher
     */
    public Flow.Publisher<Dataset> publisher() {
        return subscriber -> Subscription.start(this::restart, this::isClosed, subscriber);
    }

    /** Returns another follower of the table, from the same start. */
    private Follow restart() {
        return new Follow(table, start);
    }

    private boolean isClosed() {
        return closing || owned.isClosed();
    }

    /** Ends the follower. Waits for a call in another thread, at most a quarter of a second. */
    @Override
    public void close() {
        closing = true;
        MemorySegment handle = owned.take();
        if (handle != null) {
            Native.free(Native.FOLLOWER_FREE, handle);
        }
    }
}
