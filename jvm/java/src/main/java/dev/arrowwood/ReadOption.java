package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** An option to open data. Without options, values are checked when a column is first used as a whole. */
public enum ReadOption {
    /** Check all values when opening. */
    VALIDATE_ALL,
    /** Read everything into memory first, which is safe even if other processes rewrite the file. */
    COPY,
    /** Throw {@link ArrowwoodException.CopyNeeded}, which names the buffer, instead of copying. */
    STRICT,
    /** Accept a truncated file or stream, up to its last whole batch. */
    PARTIAL;

    /** The size of {@code arrowwood_open_options}. */
    private static final long SIZE = 24;

    /** Returns the options as an {@code arrowwood_open_options}. */
    static MemorySegment struct(Arena arena, ReadOption... options) {
        MemorySegment struct = arena.allocate(SIZE, 8);
        struct.set(JAVA_LONG, 0, SIZE);
        for (ReadOption option : options) {
            struct.set(JAVA_INT, option.offset(), 1);
        }
        return struct;
    }

    /** Returns the offset of the option's flag in the struct. */
    private long offset() {
        return switch (this) {
            case VALIDATE_ALL -> 8;
            case COPY -> 12;
            case STRICT -> 16;
            case PARTIAL -> 20;
        };
    }
}
