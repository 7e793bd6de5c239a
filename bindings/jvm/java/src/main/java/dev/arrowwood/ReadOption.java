package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.internal.Struct;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** An option to open data. Without options, values are checked when a column is first used as a whole. */
public enum ReadOption {
    /** Check all values when opening. */
    VALIDATE_ALL("validate"),
    /** Read everything into memory first, which is safe even if other processes rewrite the file. */
    COPY("copy"),
    /** Throw {@link ArrowwoodException.CopyNeeded}, which names the buffer, instead of copying. */
    STRICT("strict"),
    /** Accept a truncated file or stream, up to its last whole batch. */
    PARTIAL("partial");

    /** {@code arrowwood_open_options}. */
    static final Struct STRUCT = new Struct(
            JAVA_LONG.withName("size"),
            JAVA_INT.withName("validate"),
            JAVA_INT.withName("copy"),
            JAVA_INT.withName("strict"),
            JAVA_INT.withName("partial"));

    /** The value of a member whose option is given; of {@code validate}, it is ARROWWOOD_VALIDATE_FULL. */
    private static final int ON = 1;

    /** The member of the struct that the option sets. */
    private final String member;

    ReadOption(String member) {
        this.member = member;
    }

    /** Returns the options as an {@code arrowwood_open_options}. */
    static MemorySegment toStruct(Arena arena, ReadOption... options) {
        MemorySegment struct = STRUCT.allocateWithSize(arena);
        for (ReadOption option : options) {
            STRUCT.setInt(struct, option.member, ON);
        }
        return struct;
    }
}
