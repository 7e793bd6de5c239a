package dev.arrowwood;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Waits for conditions. A wait that takes longer than {@link #TIMEOUT} fails with a message that names the condition.
 *
 * <p>Tests sleep only here, between two polls.
 */
final class Await {
    /** Long enough for a machine that is busy with other work. */
    static final Duration TIMEOUT =
            Duration.ofSeconds(Long.parseLong(System.getenv().getOrDefault("ARROWWOOD_PATIENCE", "240")));

    private static final Duration POLL_INTERVAL = Duration.ofMillis(2);

    private Await() {}

    /** What a test waits for. */
    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits until a condition holds; {@code description} names it in messages, as in "the file exists". */
    static void until(Condition condition, String description) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw timedOut(description);
            }
            Thread.sleep(POLL_INTERVAL);
        }
    }

    /** Waits for the result of a future, and returns it. */
    static <T> T result(Future<T> future, String description) throws Exception {
        try {
            return future.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            throw timedOut(description);
        }
    }

    /** Waits until a latch has counted down to zero. */
    static void countDown(CountDownLatch latch, String description) throws InterruptedException {
        if (!latch.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)) {
            throw timedOut(description);
        }
    }

    /** Waits for the end of a thread. */
    static void termination(Thread thread) throws InterruptedException {
        if (!thread.join(TIMEOUT)) {
            throw timedOut("the end of " + thread);
        }
    }

    /** Waits for the end of a process and returns its exit status; kills it after the timeout. */
    static int exitStatus(Process process, String description) throws InterruptedException {
        if (!process.waitFor(TIMEOUT.toSeconds(), TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw timedOut("the end of " + description);
        }
        return process.exitValue();
    }

    /**
     * Waits until a thread waits for new rows. A platform thread waits in a call of the library, a virtual thread for
     * the platform thread that makes the call for it.
     */
    static void waitingForRows(Thread thread) throws Exception {
        until(
                () -> thread.isVirtual() ? thread.getState() == Thread.State.WAITING : isInPoll(thread),
                thread + " waits");
    }

    private static boolean isInPoll(Thread thread) {
        StackTraceElement[] frames = thread.getStackTrace();
        return frames.length > 0 && frames[0].getMethodName().startsWith("lambda$poll");
    }

    private static AssertionError timedOut(String description) {
        return new AssertionError("not within " + TIMEOUT.toSeconds() + " s: " + description);
    }
}
