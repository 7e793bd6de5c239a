package dev.arrowwood;

/** Guarantees about the memory returned by {@link Column#chunks(ChunkOption...)}. */
public enum ChunkOption {
    /** Offsets, keys and views are in bounds, and text is UTF-8. Costs one pass over such a column. */
    CHECKED,
    /** Buffers are aligned for their type: unaligned ones are copied. */
    ALIGNED
}
