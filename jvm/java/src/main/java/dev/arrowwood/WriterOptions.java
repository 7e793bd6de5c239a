package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** How a table is written: {@code WriterOptions.DEFAULT.sortedBy("ts").dictionary("symbol")}. Immutable. */
public final class WriterOptions {
    /** When commits are synced to disk. */
    public enum Sync {
        /** Now and then: see {@link WriterOptions#syncEvery}. */
        INTERVAL,
        /** When {@link TableWriter#sync} or {@link TableWriter#close} is called. */
        NEVER,
        /** With every commit. */
        COMMIT
    }

    /** Synced every second; segments of 4,194,304 rows, or as the table was created. */
    public static final WriterOptions DEFAULT =
            new WriterOptions(Sync.INTERVAL, 0, 0, List.of(), Optional.empty(), false);

    private final Sync sync;
    private final long syncMillis;
    private final long segmentRows;
    private final List<String> dictionary;
    private final Optional<String> sortedBy;
    private final boolean force;

    private WriterOptions(
            Sync sync, long syncMillis, long segmentRows, List<String> dictionary, Optional<String> sortedBy,
            boolean force) {
        this.sync = sync;
        this.syncMillis = syncMillis;
        this.segmentRows = segmentRows;
        this.dictionary = dictionary;
        this.sortedBy = sortedBy;
        this.force = force;
    }

    /**
     * Sets when commits are synced to disk.
     *
     * @param when when
     * @return options
     */
    public WriterOptions sync(Sync when) {
        return new WriterOptions(when, 0, segmentRows, dictionary, sortedBy, force);
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
            throw new Failure.InvalidArgument("syncs every " + interval + ", expected at least a millisecond");
        }
        return new WriterOptions(Sync.INTERVAL, interval.toMillis(), segmentRows, dictionary, sortedBy, force);
    }

    /**
     * Sets the most rows of a segment.
     *
     * @param rows how many
     * @return options
     */
    public WriterOptions segmentRows(long rows) {
        return new WriterOptions(sync, syncMillis, rows, dictionary, sortedBy, force);
    }

    /**
     * Stores text columns as {@code dictionary<int32, utf8>}.
     *
     * @param columns their names
     * @return options
     */
    public WriterOptions dictionary(String... columns) {
        return new WriterOptions(sync, syncMillis, segmentRows, List.of(columns), sortedBy, force);
    }

    /**
     * Names a column whose values never decrease.
     *
     * @param column its name
     * @return options
     */
    public WriterOptions sortedBy(String column) {
        return new WriterOptions(sync, syncMillis, segmentRows, dictionary, Optional.of(column), force);
    }

    /**
     * Also writes to network file systems, whose mappings are not coherent.
     *
     * @return options
     */
    public WriterOptions force() {
        return new WriterOptions(sync, syncMillis, segmentRows, dictionary, sortedBy, true);
    }

    /** {@code arrowwood_writer_options}. */
    MemorySegment struct(Native.Call call) {
        MemorySegment struct = call.arena.allocate(56, 8);
        struct.set(JAVA_LONG, 0, 56);
        struct.set(JAVA_INT, 8, sync.ordinal());
        struct.set(JAVA_INT, 12, force ? 1 : 0);
        struct.set(JAVA_LONG, 16, syncMillis);
        struct.set(JAVA_LONG, 24, segmentRows);
        struct.set(ADDRESS, 32, call.texts(dictionary));
        struct.set(JAVA_LONG, 40, dictionary.size());
        struct.set(ADDRESS, 48, sortedBy.map(call::text).orElse(MemorySegment.NULL));
        return struct;
    }
}
