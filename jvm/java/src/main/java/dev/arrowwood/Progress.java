package dev.arrowwood;

/** Hears how far a long call is. */
@FunctionalInterface
public interface Progress {
    /** Hears nothing. */
    Progress NONE = (done, total) -> {};

    /**
     * Called by the calling thread, during the call. Exceptions and errors it throws are ignored.
     *
     * @param done how much is done, in rows, bytes or pieces
     * @param total of how much
     */
    void at(long done, long total);
}
