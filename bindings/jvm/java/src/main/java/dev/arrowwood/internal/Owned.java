package dev.arrowwood.internal;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A handle of the library, owned by a writer or follower that can be closed while other threads use it. It is freed
 * exactly once.
 *
 * <p>A thread uses the handle within a section. Sections between {@link #lock()} and {@link #unlock} exclude each
 * other; those between {@link #share} and {@link #release} exclude nothing but {@link #take}, which waits for the end
 * of all sections and gives the handle to its caller, who frees it. Later sections throw
 * {@link ArrowwoodException.Closed}. If the owner becomes unreachable before, the cleaner's thread frees the handle;
 * the methods that end a section take the owner as an argument, which keeps it reachable until then.
 *
 * <p>Two locks guard the state. The field {@code lock} is held for the whole of an exclusive section, and guards
 * {@code sharedCount}. The monitor of {@link State} guards the handle, and is held only while it is read or replaced:
 * so neither {@link #isClosed} nor the cleaner waits for a section. A thread that holds both took {@code lock} first.
 */
public final class Owned {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ReentrantLock lock = new ReentrantLock();
    /** Signalled when {@link #sharedCount} decreases. */
    private final Condition released = lock.newCondition();
    /** The number of sections that share the handle. */
    private int sharedCount;

    private final State state;
    /** What the handle is, for messages: "writer". */
    private final String name;

    /** The handle, null once it is freed or taken. It is the cleaner's action, and must not refer to the owner. */
    private static final class State implements Runnable {
        private MemorySegment handle;
        private final MethodHandle free;

        State(MemorySegment handle, MethodHandle free) {
            this.handle = handle;
            this.free = free;
        }

        @Override
        public synchronized void run() {
            if (handle != null) {
                Native.free(free, handle);
                handle = null;
            }
        }

        synchronized MemorySegment get() {
            return handle;
        }

        synchronized MemorySegment take() {
            MemorySegment taken = handle;
            handle = null;
            return taken;
        }
    }

    public Owned(Object owner, String name, MemorySegment handle, MethodHandle free) {
        this.name = name;
        this.state = new State(handle, free);
        CLEANER.register(owner, state);
    }

    /** Begins a section in which the calling thread alone uses the handle; ended by {@link #unlock}. */
    public MemorySegment lock() {
        lock.lock();
        MemorySegment handle = state.get();
        if (handle == null) {
            lock.unlock();
            throw ArrowwoodException.of(Code.CLOSED, 0, "the " + name + " is closed");
        }
        return handle;
    }

    /** Ends the section begun by {@link #lock}; keeps the owner from being collected before. */
    public void unlock(Object owner) {
        lock.unlock();
        Reference.reachabilityFence(owner);
    }

    /** Begins a section in which other threads may use the handle too; ended by {@link #release}. */
    public MemorySegment share() {
        MemorySegment handle = lock();
        sharedCount++;
        lock.unlock();
        return handle;
    }

    /** Ends the section begun by {@link #share}; keeps the owner from being collected before. */
    public void release(Object owner) {
        lock.lock();
        sharedCount--;
        released.signalAll();
        unlock(owner);
    }

    /** Waits for the end of all sections, and takes the handle; returns null if it was taken before. */
    public MemorySegment take() {
        lock.lock();
        try {
            while (sharedCount > 0) {
                released.awaitUninterruptibly();
            }
            return state.take();
        } finally {
            lock.unlock();
        }
    }

    public boolean isClosed() {
        return state.get() == null;
    }
}
