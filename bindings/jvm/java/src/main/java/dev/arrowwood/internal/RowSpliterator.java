package dev.arrowwood;

import java.util.List;
import java.util.Spliterator;
import java.util.function.Consumer;
import java.util.function.Function;

/** Traverses a range of rows, which it reads one by one. */
final class RowSpliterator<T> implements Spliterator<T> {
    /** The minimum number of rows in a part: fewer aren't worth another thread. */
    private static final long MIN_SPLIT = 1024;

    private final Dataset dataset;
    private final List<Field> fields;
    private final Function<Object[], T> fromCells;
    private long next;
    private final long end;

    RowSpliterator(Dataset dataset, List<Field> fields, Function<Object[], T> fromCells, long next, long end) {
        this.dataset = dataset;
        this.fields = fields;
        this.fromCells = fromCells;
        this.next = next;
        this.end = end;
    }

    @Override
    public boolean tryAdvance(Consumer<? super T> action) {
        if (next >= end) {
            return false;
        }
        long row = next++;
        action.accept(fromCells.apply(Native.call(call -> dataset.cells(call, fields, row))));
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
        return new RowSpliterator<>(dataset, fields, fromCells, start, start + half);
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
