package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Native;
import dev.arrowwood.internal.Struct;
import dev.arrowwood.internal.Unsigned;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;

/** Options to write a table: {@code WriterOptions.DEFAULT.sortedBy("ts").dictionary("symbol")}. Immutable. */
public final class WriterOptions {
    /** When commits are synced to disk. */
    public enum Sync {
        /** At an interval: see {@link WriterOptions#syncEvery}. */
        INTERVAL(0),
        /** When {@link TableWriter#sync} or {@link TableWriter#close} is called. */
        NEVER(1),
        /** With every commit. */
        COMMIT(2);

        /** The value of {@code enum arrowwood_sync}. */
        final int code;

        Sync(int code) {
            this.code = code;
        }
    }

    /** The treatment of late rows: rows less than an earlier row in the column of {@link WriterOptions#sortedBy}. */
    public enum Late {
        /** They are an error, and the rows are in order. */
        REFUSE(1),
        /** They stay where they arrive. The rows are in no order, and found by an index. */
        ACCEPT(2);

        /** The value of {@code enum arrowwood_late}. */
        final int code;

        Late(int code) {
            this.code = code;
        }
    }

    /** The code of {@code enum arrowwood_late} that stands for the treatment the table was created with. */
    private static final int LATE_AS_CREATED = 0;

    /** Synced every second; segments of 4,194,304 rows, or as the table was created. */
    public static final WriterOptions DEFAULT = new WriterOptions(new Settings());

    /** {@code arrowwood_writer_options}. */
    static final Struct STRUCT = new Struct(
            JAVA_LONG.withName("size"),
            JAVA_INT.withName("sync"),
            JAVA_INT.withName("force"),
            JAVA_LONG.withName("sync_interval_ms"),
            JAVA_LONG.withName("segment_rows"),
            ADDRESS.withName("dictionary"),
            JAVA_LONG.withName("dictionary_count"),
            ADDRESS.withName("sorted_by"),
            ADDRESS.withName("index"),
            JAVA_LONG.withName("index_count"),
            JAVA_INT.withName("late"),
            JAVA_INT.withName("reserved"));

    /** The value of each option. Changed only before the options that hold it are created. */
    private static final class Settings {
        private Sync sync = Sync.INTERVAL;
        /** The interval of syncs; 0 for a second. */
        private long syncMillis;
        /** The maximum number of rows in a segment; 0 for 4,194,304, or as the table was created. */
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
     * Sets when commits are synced to disk. {@link Sync#INTERVAL} means every second: {@link #syncEvery} sets another
     * interval.
     *
     * @param sync when to sync
     * @return new options
     */
    public WriterOptions sync(Sync sync) {
        Objects.requireNonNull(sync, "sync");
        return with(copy -> {
            copy.sync = sync;
            copy.syncMillis = 0;
        });
    }

    /**
     * Syncs commits to disk at an interval.
     *
     * @param interval the interval, in whole milliseconds: finer parts are cut off
     * @return new options
     * @throws IllegalArgumentException if it is less than a millisecond
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
     * @param segmentRows the number of rows; 0 for the default, 4,194,304, or as the table was created
     * @return new options
     * @throws IllegalArgumentException if the number is negative
     */
    public WriterOptions segmentRows(long segmentRows) {
        Unsigned.count("segmentRows", segmentRows);
        return with(copy -> copy.segmentRows = segmentRows);
    }

    /**
     * Stores text columns as {@code dictionary<int32, utf8>}. Replaces the columns named by an earlier call.
     *
     * @param columns their names
     * @return new options
     */
    public WriterOptions dictionary(String... columns) {
        return with(copy -> copy.dictionary = List.of(columns));
    }

    /**
     * Names a column whose values never decrease.
     *
     * @param column its name
     * @return new options
     */
    public WriterOptions sortedBy(String column) {
        return with(copy -> copy.sortedBy = Optional.of(column));
    }

    /**
     * Sets the treatment of late rows in the column of {@link #sortedBy}. By default a table treats them as when it was
     * created, and a new table refuses them.
     *
     * @param late the treatment
     * @return new options
     */
    public WriterOptions late(Late late) {
        return with(copy -> copy.late = Optional.of(late));
    }

    /**
     * Names columns to index: conditions on them, as in {@link Dataset#filter}, read only blocks that may match. By
     * default the columns are those that the table was created with; another choice holds from the next segment on.
     *
     * @param columns their names
     * @return new options
     */
    public WriterOptions index(String... columns) {
        return with(copy -> copy.index = List.of(columns));
    }

    /**
     * Also writes to network file systems, whose mappings are not coherent.
     *
     * @return new options
     */
    public WriterOptions force() {
        return with(copy -> copy.force = true);
    }

    /** Returns the options as an {@code arrowwood_writer_options}. */
    MemorySegment toStruct(Native.Call call) {
        MemorySegment options = STRUCT.allocateWithSize(call.arena);
        STRUCT.setInt(options, "sync", settings.sync.code);
        STRUCT.setInt(options, "force", settings.force ? 1 : 0);
        STRUCT.setLong(options, "sync_interval_ms", settings.syncMillis);
        STRUCT.setLong(options, "segment_rows", settings.segmentRows);
        STRUCT.setAddress(options, "dictionary", call.texts(settings.dictionary));
        STRUCT.setLong(options, "dictionary_count", settings.dictionary.size());
        STRUCT.setAddress(
                options, "sorted_by", settings.sortedBy.map(call::text).orElse(MemorySegment.NULL));
        STRUCT.setAddress(options, "index", call.texts(settings.index));
        STRUCT.setLong(options, "index_count", settings.index.size());
        STRUCT.setInt(options, "late", settings.late.map(late -> late.code).orElse(LATE_AS_CREATED));
        return options;
    }
}
