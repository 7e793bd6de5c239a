package dev.arrowwood;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A handle that one thread uses at a time, unless threads {@link #share} it. It is freed once: by the caller of
 * {@link #take}, or by the collector when its owner is unreachable.
 */
final class Owned {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition unshared = lock.newCondition();
    /** The number of calls that share the handle. */
    private int shared;

    private final State state;
    private final String name;

    /** Frees the handle for the collector; must not refer to the owner. */
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
            MemorySegment result = handle;
            handle = null;
            return result;
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

    /** Returns the handle for concurrent use; {@link #take} waits until each user calls {@link #release}. */
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

    /** Waits for calls in other threads, and takes the handle; returns null if it was taken before. */
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
