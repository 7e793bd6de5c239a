package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;

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
    public static final WriterOptions DEFAULT = new WriterOptions(new Settings());

    /** The size of {@code arrowwood_writer_options}. */
    private static final long SIZE = 80;

    /** The value of each option. Changed only before the options that hold it are created. */
    private static final class Settings {
        private Sync sync = Sync.INTERVAL;
        /** 0 for the default. */
        private long syncMillis;
        /** 0 for the default. */
        private long segmentRows;

        private List<String> dictionary = List.of();
        private Optional<String> sortedBy = Optional.empty();
        private Optional<Late> late = Optional.empty();
        private List<String> index = List.of();
        private boolean force;

        Settings copy() {
            Settings copy = new Settings();
            copy.sync = sync;
            copy.syncMillis = syncMillis;
            copy.segmentRows = segmentRows;
            copy.dictionary = dictionary;
            copy.sortedBy = sortedBy;
            copy.late = late;
            copy.index = index;
            copy.force = force;
            return copy;
        }
    }

    private final Settings settings;

    private WriterOptions(Settings settings) {
        this.settings = settings;
    }

    /** Returns a copy of the options with a change. */
    private WriterOptions with(Consumer<Settings> change) {
        Settings copy = settings.copy();
        change.accept(copy);
        return new WriterOptions(copy);
    }

    /**
     * Sets when commits are synced to disk.
     *
     * @param when the time of syncs
     * @return options
     */
    public WriterOptions sync(Sync when) {
        return with(copy -> {
            copy.sync = when;
            copy.syncMillis = 0;
        });
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
        return with(copy -> {
            copy.sync = Sync.INTERVAL;
            copy.syncMillis = interval.toMillis();
        });
    }

    /**
     * Sets the maximum number of rows in a segment.
     *
     * @param rows the number of rows
     * @return options
     */
    public WriterOptions segmentRows(long rows) {
        Unsigned.count("segmentRows", rows);
        return with(copy -> copy.segmentRows = rows);
    }

    /**
     * Stores text columns as {@code dictionary<int32, utf8>}.
     *
     * @param columns their names
     * @return options
     */
    public WriterOptions dictionary(String... columns) {
        return with(copy -> copy.dictionary = List.of(columns));
    }

    /**
     * Names a column whose values never decrease.
     *
     * @param column its name
     * @return options
     */
    public WriterOptions sortedBy(String column) {
        return with(copy -> copy.sortedBy = Optional.of(column));
    }

    /**
     * Sets the treatment of late rows in the column of {@link #sortedBy}; as the table was created by default, refused
     * by a new one.
     *
     * @param rows the treatment
     * @return options
     */
    public WriterOptions late(Late rows) {
        return with(copy -> copy.late = Optional.of(rows));
    }

    /**
     * Names columns to index: conditions on them, as in {@link Dataset#filter}, read only blocks that may match.
     * As the table was created by default; another choice holds from the next segment on.
     *
     * @param columns their names
     * @return options
     */
    public WriterOptions index(String... columns) {
        return with(copy -> copy.index = List.of(columns));
    }

    /**
     * Also writes to network file systems, whose mappings are not coherent.
     *
     * @return options
     */
    public WriterOptions force() {
        return with(copy -> copy.force = true);
    }

    /** Returns the options as an {@code arrowwood_writer_options}. */
    MemorySegment struct(Native.Call call) {
        MemorySegment struct = call.arena.allocate(SIZE, 8);
        struct.set(JAVA_LONG, 0, SIZE);
        struct.set(JAVA_INT, 8, settings.sync.ordinal());
        struct.set(JAVA_INT, 12, settings.force ? 1 : 0);
        struct.set(JAVA_LONG, 16, settings.syncMillis);
        struct.set(JAVA_LONG, 24, settings.segmentRows);
        struct.set(ADDRESS, 32, call.texts(settings.dictionary));
        struct.set(JAVA_LONG, 40, settings.dictionary.size());
        struct.set(ADDRESS, 48, settings.sortedBy.map(call::text).orElse(MemorySegment.NULL));
        struct.set(ADDRESS, 56, call.texts(settings.index));
        struct.set(JAVA_LONG, 64, settings.index.size());
        struct.set(JAVA_INT, 72, settings.late.map(late -> late.ordinal() + 1).orElse(0));
        return struct;
    }
}
