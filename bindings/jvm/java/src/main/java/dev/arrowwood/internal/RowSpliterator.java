package dev.arrowwood.internal;

import java.util.Spliterator;
import java.util.function.Consumer;
import java.util.function.LongFunction;

/** Traverses a range of rows, which it reads one by one. */
public final class RowSpliterator<T> implements Spliterator<T> {
    /** The minimum number of rows in a part: fewer aren't worth another thread. */
    private static final long MIN_SPLIT = 1024;

    private final LongFunction<T> read;
    private long next;
    private final long end;

    /** Traverses the rows from one to another, of which {@code read} reads one. */
    public RowSpliterator(LongFunction<T> read, long next, long end) {
        this.read = read;
        this.next = next;
        this.end = end;
    }

    @Override
    public boolean tryAdvance(Consumer<? super T> action) {
        if (next >= end) {
            return false;
        }
        action.accept(read.apply(next++));
        return true;
    }

    @Override
    public Spliterator<T> trySplit() {
        long half = (end - next) / 2;
        if (half < MIN_SPLIT) {
            return null;
        }
        long start = next;
        next += half;
        return new RowSpliterator<>(read, start, start + half);
    }

    @Override
    public long estimateSize() {
        return end - next;
    }

    @Override
    public int characteristics() {
        return ORDERED | SIZED | SUBSIZED | IMMUTABLE | NONNULL;
    }
}
