package dev.arrowwood;

/** What {@link Column#chunks(ChunkOption...)} guarantees of the memory that it returns. */
public enum ChunkOption {
    /** Offsets, keys and views lead where they should, and text is UTF-8. Costs a pass over such a column, once. */
    CHECKED,
    /** Buffers are aligned for their type: those that aren't are copied. */
    ALIGNED
}
