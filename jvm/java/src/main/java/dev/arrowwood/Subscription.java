package dev.arrowwood;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;

/** One subscriber of a table's new rows, and the thread that follows the table for it. */
final class Subscription implements Flow.Subscription, Runnable {
    private static final Duration STEP = Duration.ofMillis(100);

    private final Follow parent;
    private final Follow follow;
    private final Flow.Subscriber<? super Dataset> subscriber;
    private long demand;
    private boolean cancelled;
    private Throwable failure;

    private Subscription(Follow parent, Follow follow, Flow.Subscriber<? super Dataset> subscriber) {
        this.parent = parent;
        this.follow = follow;
        this.subscriber = subscriber;
    }

    static void start(Follow parent, Flow.Subscriber<? super Dataset> subscriber) {
        Objects.requireNonNull(subscriber);
        Subscription subscription = new Subscription(parent, parent.again(), subscriber);
        Thread.ofPlatform().daemon().name("arrowwood-publisher").start(subscription);
    }

    @Override
    public synchronized void request(long rows) {
        if (rows <= 0) {
            failure = new Failure.InvalidArgument("a request of " + rows + " datasets");
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
        try (follow) {
            subscriber.onSubscribe(this);
            publish();
        } catch (Throwable e) {
            if (!isCancelled()) {
                subscriber.onError(e);
            }
        }
    }

    private void publish() throws Throwable {
        while (!isCancelled()) {
            if (failure() != null) {
                throw failure();
            }
            if (parent.isClosed()) {
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
