package dev.arrowwood;

/** Receives the progress of a long call. */
@FunctionalInterface
public interface Progress {
    /** Ignores the progress. */
    Progress NONE = (done, total) -> {};

    /**
     * Called by the calling thread, during the call. Exceptions and errors it throws are ignored.
     *
     * @param done the work done, in rows, bytes or pieces
     * @param total the whole work, in the same unit
     */
    void at(long done, long total);
}
