package dev.arrowwood;

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

    /** Returns the options as an {@code arrowwood_open_options}. */
    static java.lang.foreign.MemorySegment struct(java.lang.foreign.Arena arena, ReadOption... options) {
        var struct = arena.allocate(24, 8);
        struct.set(java.lang.foreign.ValueLayout.JAVA_LONG, 0, 24);
        for (ReadOption option : options) {
            switch (option) {
                case VALIDATE_ALL -> struct.set(java.lang.foreign.ValueLayout.JAVA_INT, 8, 1);
                case COPY -> struct.set(java.lang.foreign.ValueLayout.JAVA_INT, 12, 1);
                case STRICT -> struct.set(java.lang.foreign.ValueLayout.JAVA_INT, 16, 1);
                case PARTIAL -> struct.set(java.lang.foreign.ValueLayout.JAVA_INT, 20, 1);
            }
        }
        return struct;
    }
}
