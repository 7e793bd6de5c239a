package dev.arrowwood;

/** Guarantees about the memory returned by {@link Column#chunks(ChunkOption...)}. */
public enum ChunkOption {
    /** Offsets, keys and views lead where they should, and text is UTF-8. Costs a pass over such a column, once. */
    CHECKED,
    /** Buffers are aligned for their type: those that aren't are copied. */
    ALIGNED
}
