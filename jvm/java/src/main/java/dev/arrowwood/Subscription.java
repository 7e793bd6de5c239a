package dev.arrowwood;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;

/** Delivers a table's new rows to one subscriber, in a thread of its own. */
final class Subscription implements Flow.Subscription, Runnable {
    private static final Duration STEP = Duration.ofMillis(100);
    private static final System.Logger LOG = System.getLogger("dev.arrowwood");

    private final Follow parent;
    private final Flow.Subscriber<? super Dataset> subscriber;
    /** Null if the table can't be followed; {@link #failure} is the reason. */
    private Follow follow;

    private long demand;
    private boolean cancelled;
    private Throwable failure;

    private Subscription(Follow parent, Flow.Subscriber<? super Dataset> subscriber) {
        this.parent = parent;
        this.subscriber = subscriber;
    }

    /** Starts following. Throws only if the subscriber is null; other failures go to {@code onError}. */
    static void start(Follow parent, Flow.Subscriber<? super Dataset> subscriber) {
        Objects.requireNonNull(subscriber);
        Subscription subscription = new Subscription(parent, subscriber);
        try {
            subscription.follow = parent.restart();
        } catch (Throwable e) {
            subscription.failure = e;
        }
        try {
            Thread.ofPlatform().daemon().name("arrowwood-publisher").start(subscription);
        } catch (Throwable e) {
            // The system has no more threads: report the failure in this one.
            subscription.fail(e);
            subscription.run();
        }
    }

    private synchronized void fail(Throwable e) {
        failure = failure == null ? e : failure;
    }

    @Override
    public synchronized void request(long rows) {
        if (rows <= 0) {
            fail(new ArrowwoodException.InvalidArgument("a request of " + rows + " datasets"));
        }
        demand = demand + rows < 0 ? Long.MAX_VALUE : demand + rows;
        notifyAll();
    }

    @Override
    public synchronized void cancel() {
        cancelled = true;
        notifyAll();
    }

    /** Waits up to a step for a request; returns true if rows are requested. */
    private synchronized boolean awaitDemand() throws InterruptedException {
        if (demand <= 0 && !cancelled && failure == null) {
            wait(STEP.toMillis());
        }
        return demand > 0;
    }

    private synchronized boolean isCancelled() {
        return cancelled;
    }

    private synchronized Throwable failure() {
        return failure;
    }

    private synchronized void decrementDemand() {
        if (demand != Long.MAX_VALUE) {
            demand--;
        }
    }

    @Override
    public void run() {
        Follow closing = follow;
        try (closing) {
            subscriber.onSubscribe(this);
            publish();
        } catch (Throwable e) {
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

    private void publish() throws Throwable {
        while (!isCancelled()) {
            if (failure() != null) {
                throw failure();
            }
            if (parent.isClosed()) {
                // No signal may follow onComplete, not even onError with an exception that onComplete throws.
                cancel();
                subscriber.onComplete();
                return;
            }
            Optional<Dataset> rows = awaitDemand() ? follow.next(STEP) : Optional.empty();
            if (rows.isPresent() && !isCancelled()) {
                decrementDemand();
                subscriber.onNext(rows.get());
            }
        }
    }
}
