package dev.arrowwood;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A handle that is used by one thread at a time, unless they {@link #share} it, and freed once: by {@link #take}, or by
 * the collector if its owner is forgotten.
 */
final class Owned {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition unshared = lock.newCondition();
    /** Calls that share the handle. */
    private int shared;

    private final State state;
    private final String name;

    /** The state with which the collector frees the handle; must not refer to the owner. */
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

    Owned(Object owner, String name, MemorySegment handle, MethodHandle free) {
        this.name = name;
        this.state = new State(handle, free);
        CLEANER.register(owner, state);
    }

    /** Locks the handle for the calling thread, which unlocks it afterwards. */
    MemorySegment lock() {
        lock.lock();
        MemorySegment handle = state.get();
        if (handle == null) {
            lock.unlock();
            throw new ArrowwoodException.Closed("the " + name + " is closed");
        }
        return handle;
    }

    /** Ends the section begun by {@link #lock}; keeps the owner from being collected before. */
    void unlock(Object owner) {
        lock.unlock();
        Reference.reachabilityFence(owner);
    }

    /** Keeps the handle from being taken while the calling thread uses it beside others, until {@link #release}. */
    MemorySegment share() {
        MemorySegment handle = lock();
        shared++;
        lock.unlock();
        return handle;
    }

    /** Ends the section begun by {@link #share}; keeps the owner from being collected before. */
    void release(Object owner) {
        lock.lock();
        shared--;
        unshared.signalAll();
        unlock(owner);
    }

    /** Waits for calls in other threads, and takes the handle away; null if that was done before. */
    MemorySegment take() {
        lock.lock();
        try {
            while (shared > 0) {
                unshared.awaitUninterruptibly();
            }
            return state.take();
        } finally {
            lock.unlock();
        }
    }

    boolean isClosed() {
        return state.get() == null;
    }
}
