package dev.arrowwood;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Waits for conditions, each with an end, after which it says what it waited for. Only polls sleep, and only here. */
final class Await {
    /** After which a wait has failed, also on a machine that is busy with other things. */
    static final Duration PATIENCE =
            Duration.ofSeconds(Long.parseLong(System.getenv().getOrDefault("ARROWWOOD_PATIENCE", "240")));

    private static final Duration POLL = Duration.ofMillis(2);

    private Await() {}

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits until a condition holds; {@code what} says what that means, as in "the file is there". */
    static void until(Condition condition, String what) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            if (System.nanoTime() > end) {
                throw late(what);
            }
            Thread.sleep(POLL);
        }
    }

    static <T> T value(Future<T> future, String what) throws Exception {
        try {
            return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            throw late(what);
        }
    }

    static void zero(CountDownLatch latch, String what) throws InterruptedException {
        if (!latch.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
            throw late(what);
        }
    }

    static void end(Thread thread) throws InterruptedException {
        if (!thread.join(PATIENCE)) {
            throw late("the end of " + thread);
        }
    }

    /** Waits for the end of a program, and returns its status. */
    static int status(Process process, String what) throws InterruptedException {
        if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw late("the end of " + what);
        }
        return process.exitValue();
    }

    /** Waits until a thread waits for new rows: one of the system in a call of the library, a virtual one for such a call. */
    static void waitingForRows(Thread thread) throws Exception {
        until(
                () -> thread.isVirtual() ? thread.getState() == Thread.State.WAITING : isInPoll(thread),
                thread + " waits");
    }

    private static boolean isInPoll(Thread thread) {
        StackTraceElement[] frames = thread.getStackTrace();
        return frames.length > 0 && frames[0].getMethodName().startsWith("lambda$poll");
    }

    private static AssertionError late(String what) {
        return new AssertionError("not within " + PATIENCE.toSeconds() + " s: " + what);
    }
}
