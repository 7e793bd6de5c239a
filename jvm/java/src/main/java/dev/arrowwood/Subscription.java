package dev.arrowwood;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;

/** One subscriber of a table's new rows, and the thread that follows the table for it. */
final class Subscription implements Flow.Subscription, Runnable {
    private static final Duration STEP = Duration.ofMillis(100);
    private static final System.Logger LOG = System.getLogger("dev.arrowwood");

    private final Follow parent;
    private final Flow.Subscriber<? super Dataset> subscriber;
    /** Null if the table can't be followed, for the reason that {@link #failure} has. */
    private Follow follow;

    private long demand;
    private boolean cancelled;
    private Throwable failure;

    private Subscription(Follow parent, Flow.Subscriber<? super Dataset> subscriber) {
        this.parent = parent;
        this.subscriber = subscriber;
    }

    /** Follows from now on. What goes wrong is the subscriber's to hear: nothing but a null subscriber throws. */
    static void start(Follow parent, Flow.Subscriber<? super Dataset> subscriber) {
        Objects.requireNonNull(subscriber);
        Subscription subscription = new Subscription(parent, subscriber);
        try {
            subscription.follow = parent.again();
        } catch (Throwable e) {
            subscription.failure = e;
        }
        try {
            Thread.ofPlatform().daemon().name("arrowwood-publisher").start(subscription);
        } catch (Throwable e) {
            // There are no more threads.
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

    /** Waits a while for something to do; whether there is. */
    private synchronized boolean isWanted() throws InterruptedException {
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

    private synchronized void delivered() {
        if (demand != Long.MAX_VALUE) {
            demand--;
        }
    }

    @Override
    public void run() {
        Follow own = follow;
        try (own) {
            subscriber.onSubscribe(this);
            publish();
        } catch (Throwable e) {
            if (!isCancelled()) {
                tell(e);
            }
        }
    }

    /** What a subscriber throws when it is told of a failure is lost: there is nobody left to hear it. */
    private void tell(Throwable e) {
        try {
            subscriber.onError(e);
        } catch (Throwable again) {
            LOG.log(System.Logger.Level.WARNING, "a subscriber's onError threw", again);
        }
    }

    private void publish() throws Throwable {
        while (!isCancelled()) {
            if (failure() != null) {
                throw failure();
            }
            if (parent.isClosed()) {
                // Nothing comes after it, not even its own exception.
                cancel();
                subscriber.onComplete();
                return;
            }
            Optional<Dataset> rows = isWanted() ? follow.next(STEP) : Optional.empty();
            if (rows.isPresent() && !isCancelled()) {
                delivered();
                subscriber.onNext(rows.get());
            }
        }
    }
}
