// Threads of Java in each state that a stack can tell, for the cores java17-threads and java25-virtual:
// monitors and a java.util.concurrent lock in deadlocks, waits, parks, interpreted recursion, compiled code with
// inlined methods that holds a lock. With "virtual" as argument (JDK 21 on) there are virtual threads too.
// When all are where they shall be, "ready" is printed.
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

public class JavaThreads {
    static final Object FIRST = new StringBuilder("first"), SECOND = new Object[2], SIGNAL = new int[1];
    static final ReentrantLock OWNED = new ReentrantLock();
    static final Blocker BLOCKER = new Blocker();
    static final Compiled COMPILED = new Compiled();
    static volatile boolean spinning = true;
    static long count;

    static class Blocker {}

    static class Compiled {
        // Compiled as one, with the other two inlined.
        synchronized void outer(boolean stop) { middle(stop); }
        void middle(boolean stop) { inner(stop); }
        void inner(boolean stop) { if (stop) LockSupport.park(BLOCKER); else count++; }
    }

    // What a virtual thread holds while it waits would keep its carrier up to JDK 23.
    static class Free {
        static void outer(boolean stop) { inner(stop); }
        static void inner(boolean stop) { if (stop) LockSupport.park(BLOCKER); else count++; }
    }

    static void both(Object one, Object other) {
        synchronized (one) {
            pause(300);
            synchronized (other) { count++; }
        }
    }

    static void recurse(int depth) { if (depth > 0) recurse(depth - 1); else pause(Long.MAX_VALUE); }

    static void await() {
        synchronized (SIGNAL) {
            try { SIGNAL.wait(); } catch (InterruptedException e) { throw new Error(e); }
        }
    }

    static void own() { OWNED.lock(); recurse(2); }

    static void want() { OWNED.lock(); }

    static void spin() { while (spinning) count++; }

    // Its older frames stay in the heap when it goes on: only the youngest are put back on a thread's stack.
    static void resume(int depth) { if (depth > 0) resume(depth - 1); else { LockSupport.park(BLOCKER); spin(); } }

    static void pause(long millis) {
        try { Thread.sleep(millis); } catch (InterruptedException e) { throw new Error(e); }
    }

    static void start(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.start();
    }

    // By reflection, as JDK 17 must compile it.
    static Thread startVirtual(String name, Runnable run) throws Exception {
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> kind = Class.forName("java.lang.Thread$Builder$OfVirtual");
        builder = kind.getMethod("name", String.class).invoke(builder, name);
        return (Thread) kind.getMethod("start", Runnable.class).invoke(builder, run);
    }

    public static void main(String[] args) throws Exception {
        Thread once = new Thread(() -> Free.outer(true));
        once.start();
        pause(100);
        LockSupport.unpark(once);
        once.join();
        for (int i = 0; i < 20000; i++) { COMPILED.outer(false); Free.outer(false); }
        start("dead-1", () -> both(FIRST, SECOND));
        start("dead-2", () -> both(SECOND, FIRST));
        start("waits", JavaThreads::await);
        start("parks", () -> LockSupport.park(BLOCKER));
        start("owns", JavaThreads::own);
        start("recurses \u00e9\u4e2d", () -> recurse(20));
        start("compiled", () -> COMPILED.outer(true));
        pause(500);
        start("wants", JavaThreads::want);
        start("blocked", () -> COMPILED.outer(false));
        if (args.length > 0) {
            for (int i = 0; i < 12; i++) startVirtual("parks-" + i, () -> LockSupport.park(BLOCKER));
            for (int i = 0; i < 5; i++) { int depth = i; startVirtual("recurses-" + i, () -> recurse(depth)); }
            for (int i = 0; i < 3; i++) startVirtual("wants-" + i, JavaThreads::want);
            for (int i = 0; i < 2; i++) startVirtual("compiled-" + i, () -> Free.outer(true));
            Thread resumed = startVirtual("resumes", () -> resume(30));
            pause(500);
            LockSupport.unpark(resumed);
            startVirtual("spins", JavaThreads::spin);
        }
        pause(1500);
        System.out.println("ready");
        pause(Long.MAX_VALUE);
    }
}
