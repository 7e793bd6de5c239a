package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Options to write a table: {@code WriterOptions.DEFAULT.sortedBy("ts").dictionary("symbol")}. Immutable. */
public final class WriterOptions {
    /** When commits are synced to disk. */
    public enum Sync {
        /** At an interval: see {@link WriterOptions#syncEvery}. */
        INTERVAL,
        /** When {@link TableWriter#sync} or {@link TableWriter#close} is called. */
        NEVER,
        /** With every commit. */
        COMMIT
    }

    /** The treatment of late rows: rows less than an earlier row in the column of {@link WriterOptions#sortedBy}. */
    public enum Late {
        /** They are an error, and the rows are in order. */
        REFUSE,
        /** They stay where they arrive. The rows are in no order, and found by an index. */
        ACCEPT
    }

    /** Synced every second; segments of 4,194,304 rows, or as the table was created. */
    public static final WriterOptions DEFAULT = new WriterOptions(
            new Values(Sync.INTERVAL, 0, 0, List.of(), Optional.empty(), Optional.empty(), List.of(), false));

    private record Values(
            Sync sync,
            long syncMillis,
            long segmentRows,
            List<String> dictionary,
            Optional<String> sortedBy,
            Optional<Late> late,
            List<String> index,
            boolean force) {}

    private final Values values;

    private WriterOptions(Values values) {
        this.values = values;
    }

    /**
     * Sets when commits are synced to disk.
     *
     * @param when the time of syncs
     * @return options
     */
    public WriterOptions sync(Sync when) {
        return new WriterOptions(new Values(
                when,
                0,
                values.segmentRows,
                values.dictionary,
                values.sortedBy,
                values.late,
                values.index,
                values.force));
    }

    /**
     * Syncs commits to disk at an interval.
     *
     * @param interval at least a millisecond
     * @return options
     * @throws IllegalArgumentException if it is shorter
     */
    public WriterOptions syncEvery(Duration interval) {
        if (interval.toMillis() < 1) {
            throw new ArrowwoodException.InvalidArgument(
                    "syncs every " + interval + ", expected at least a millisecond");
        }
        return new WriterOptions(new Values(
                Sync.INTERVAL,
                interval.toMillis(),
                values.segmentRows,
                values.dictionary,
                values.sortedBy,
                values.late,
                values.index,
                values.force));
    }

    /**
     * Sets the maximum number of rows in a segment.
     *
     * @param rows the number of rows
     * @return options
     */
    public WriterOptions segmentRows(long rows) {
        return new WriterOptions(new Values(
                values.sync,
                values.syncMillis,
                Unsigned.count("segmentRows", rows),
                values.dictionary,
                values.sortedBy,
                values.late,
                values.index,
                values.force));
    }

    /**
     * Stores text columns as {@code dictionary<int32, utf8>}.
     *
     * @param columns their names
     * @return options
     */
    public WriterOptions dictionary(String... columns) {
        return new WriterOptions(new Values(
                values.sync,
                values.syncMillis,
                values.segmentRows,
                List.of(columns),
                values.sortedBy,
                values.late,
                values.index,
                values.force));
    }

    /**
     * Names a column whose values never decrease.
     *
     * @param column its name
     * @return options
     */
    public WriterOptions sortedBy(String column) {
        return new WriterOptions(new Values(
                values.sync,
                values.syncMillis,
                values.segmentRows,
                values.dictionary,
                Optional.of(column),
                values.late,
                values.index,
                values.force));
    }

    /**
     * Sets the treatment of late rows in the column of {@link #sortedBy}; as the table was created by default, refused
     * by a new one.
     *
     * @param rows the treatment
     * @return options
     */
    public WriterOptions late(Late rows) {
        return new WriterOptions(new Values(
                values.sync,
                values.syncMillis,
                values.segmentRows,
                values.dictionary,
                values.sortedBy,
                Optional.of(rows),
                values.index,
                values.force));
    }

    /**
     * Names columns to index: conditions on them, as in {@link Dataset#filter}, read only blocks that may match.
     * As the table was created by default; another choice holds from the next segment on.
     *
     * @param columns their names
     * @return options
     */
    public WriterOptions index(String... columns) {
        return new WriterOptions(new Values(
                values.sync,
                values.syncMillis,
                values.segmentRows,
                values.dictionary,
                values.sortedBy,
                values.late,
                List.of(columns),
                values.force));
    }

    /**
     * Also writes to network file systems, whose mappings are not coherent.
     *
     * @return options
     */
    public WriterOptions force() {
        return new WriterOptions(new Values(
                values.sync,
                values.syncMillis,
                values.segmentRows,
                values.dictionary,
                values.sortedBy,
                values.late,
                values.index,
                true));
    }

    /** {@code arrowwood_writer_options}. */
    MemorySegment struct(Native.Call call) {
        MemorySegment struct = call.arena.allocate(80, 8);
        struct.set(JAVA_LONG, 0, 80);
        struct.set(JAVA_INT, 8, values.sync.ordinal());
        struct.set(JAVA_INT, 12, values.force ? 1 : 0);
        struct.set(JAVA_LONG, 16, values.syncMillis);
        struct.set(JAVA_LONG, 24, values.segmentRows);
        struct.set(ADDRESS, 32, call.texts(values.dictionary));
        struct.set(JAVA_LONG, 40, values.dictionary.size());
        struct.set(ADDRESS, 48, values.sortedBy.map(call::text).orElse(MemorySegment.NULL));
        struct.set(ADDRESS, 56, call.texts(values.index));
        struct.set(JAVA_LONG, 64, values.index.size());
        struct.set(JAVA_INT, 72, values.late.map(late -> late.ordinal() + 1).orElse(0));
        return struct;
    }
}
