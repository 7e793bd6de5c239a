package dev.arrowwood.internal;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.Dataset;
import dev.arrowwood.Follow;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * Delivers a table's new rows to one subscriber, in a thread of its own.
 *
 * <p>The delivering thread is the only one that calls the subscriber, as {@link Flow} requires: a failure or
 * cancellation in another thread is only noted. {@link #request} and {@link #cancel} may be called from any thread,
 * within {@code onNext} too. They change {@link #demand}, {@link #cancelled} and {@link #failure} under this object's
 * monitor, and notify the thread, which otherwise waits for demand, or for rows of {@link #follow}. No call to the
 * subscriber is made within the monitor. Closing the parent isn't notified: the thread looks for it after each wait of
 * at most {@link #MAX_WAIT}.
 */
public final class Subscription implements Flow.Subscription, Runnable {
    /** The longest wait for demand or rows; the thread then checks whether the parent was closed. */
    private static final Duration MAX_WAIT = Duration.ofMillis(100);

    /** The demand of a subscriber that takes any number of datasets; it isn't counted down. */
    private static final long UNBOUNDED = Long.MAX_VALUE;

    private static final System.Logger LOG = System.getLogger("dev.arrowwood");

    /** Returns whether the follower whose publisher was subscribed to is closed, which completes the subscription. */
    private final BooleanSupplier isParentClosed;
    /** The subscription's own follower. Null if the table can't be followed; {@link #failure} is the reason. */
    private final Follow follow;

    private final Flow.Subscriber<? super Dataset> subscriber;

    /** The number of datasets that were requested, but not delivered yet; guarded by this. */
    private long demand;
    /** Guarded by this. */
    private boolean cancelled;
    /** The first failure, which ends the subscription; guarded by this. */
    private Throwable failure;

    private Subscription(BooleanSupplier isParentClosed, Follow follow, Flow.Subscriber<? super Dataset> subscriber) {
        this.isParentClosed = isParentClosed;
        this.follow = follow;
        this.subscriber = subscriber;
    }

    /**
     * Starts following. Throws only if the subscriber is null; other failures go to {@code onError}.
     *
     * @param open returns the subscription's own follower
     * @param isParentClosed returns whether the follower whose publisher was subscribed to is closed
     * @param subscriber receives the rows
     */
    public static void start(
            Supplier<Follow> open, BooleanSupplier isParentClosed, Flow.Subscriber<? super Dataset> subscriber) {
        Objects.requireNonNull(subscriber);
        Subscription subscription = create(open, isParentClosed, subscriber);
        try {
            Thread.ofPlatform().daemon().name("arrowwood-publisher").start(subscription);
        } catch (Throwable e) {
            // The system has no more threads: report the failure in this one.
            subscription.fail(e);
            subscription.run();
        }
    }

    private static Subscription create(
            Supplier<Follow> open, BooleanSupplier isParentClosed, Flow.Subscriber<? super Dataset> subscriber) {
        try {
            return new Subscription(isParentClosed, open.get(), subscriber);
        } catch (Throwable e) {
            Subscription failed = new Subscription(isParentClosed, null, subscriber);
            failed.fail(e);
            return failed;
        }
    }

    private synchronized void fail(Throwable e) {
        if (failure == null) {
            failure = e;
        }
        notifyAll();
    }

    /** Adds to the demand. A number that isn't positive ends the subscription with a failure. */
    @Override
    public synchronized void request(long datasets) {
        if (datasets <= 0) {
            fail(new ArrowwoodException.InvalidArgument("a request of " + datasets + " datasets"));
            return;
        }
        boolean overflows = datasets > UNBOUNDED - demand;
        demand = overflows ? UNBOUNDED : demand + datasets;
        notifyAll();
    }

    @Override
    public synchronized void cancel() {
        cancelled = true;
        notifyAll();
    }

    /** Waits for demand, at most {@link #MAX_WAIT}; returns true if a dataset may be delivered. */
    private synchronized boolean awaitDemand() throws InterruptedException {
        if (demand == 0 && !cancelled && failure == null) {
            wait(MAX_WAIT.toMillis());
        }
        return demand > 0 && !cancelled && failure == null;
    }

    private synchronized boolean isCancelled() {
        return cancelled;
    }

    private synchronized Throwable failure() {
        return failure;
    }

    private synchronized void decrementDemand() {
        if (demand != UNBOUNDED) {
            demand--;
        }
    }

    @Override
    public void run() {
        try (follow) {
            subscriber.onSubscribe(this);
            publish();
        } catch (Throwable e) {
            // The subscriber is told of its own exceptions too, unless it has cancelled.
            if (!isCancelled()) {
                reportFailure(e);
            }
        }
    }

    /** Calls {@code onError}; logs what it throws, because the subscriber can't be told. */
    private void reportFailure(Throwable e) {
        try {
            subscriber.onError(e);
        } catch (Throwable thrown) {
            LOG.log(System.Logger.Level.WARNING, "a subscriber's onError threw", thrown);
        }
    }

    /** Delivers datasets until the subscription is cancelled, completed or failed. */
    private void publish() throws Throwable {
        while (!isCancelled()) {
            Throwable reason = failure();
            if (reason != null) {
                throw reason;
            }
            if (isParentClosed.getAsBoolean()) {
                // No signal may follow onComplete, not even onError with an exception that onComplete throws.
                cancel();
                subscriber.onComplete();
                return;
            }
            Optional<Dataset> rows = awaitDemand() ? follow.next(MAX_WAIT) : Optional.empty();
            if (rows.isPresent() && !isCancelled()) {
                decrementDemand();
                subscriber.onNext(rows.get());
            }
        }
    }
}
