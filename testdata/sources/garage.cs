// Threads that hold locks of .NET 11 and wait for them, and suspended methods of runtime async. The file named by the
// first argument gets what the program knows of itself: for each thread its system id, and for each lock kind, type,
// owner, times entered and waiters, by thread name. Prints "READY" and stays.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Garage;

sealed class Bay { }
sealed class Ramp { }
sealed class Lift { }
sealed class Bell { }
sealed class Ghost { }

static class Book
{
    [DllImport("libc")] static extern int gettid();
    static readonly SortedDictionary<string, int> tids = new();
    static readonly List<string> locks = new();

    public static Thread Start(string name, Action work)
    {
        using var there = new ManualResetEvent(false);
        var thread = new Thread(() => { lock (tids) tids[name] = gettid(); there.Set(); work(); }, 128 << 10) { Name = name, IsBackground = true };
        thread.Start();
        there.WaitOne();
        return thread;
    }

    // Starts a thread that takes something and keeps it.
    public static Thread Keep(string name, Action take)
    {
        using var done = new ManualResetEvent(false);
        var thread = Start(name, () => { take(); done.Set(); Thread.Sleep(Timeout.Infinite); });
        done.WaitOne();
        return thread;
    }

    public static void Lock(string kind, string type, string owner, int times, params string[] waiters) =>
        locks.Add($"{{\"kind\": \"{kind}\", \"type\": \"{type}\", \"owner\": {(owner == null ? "null" : $"\"{owner}\"")}, \"times\": {times}, \"waiters\": [{string.Join(", ", waiters.Select(w => $"\"{w}\""))}]}}");

    public static void Write(string path) => File.WriteAllText(path,
        "{\n  \"tids\": {" + string.Join(", ", tids.Select(t => $"\"{t.Key}\": {t.Value}")) + "},\n  \"locks\": [\n    " + string.Join(",\n    ", locks) + "\n  ]\n}\n");
}

static class Yard
{
    public static readonly TaskCompletionSource<int> Never = new();
    // Two suspended methods: what they keep is an int and a string, and a string alone.
    public static async Task<int> Inner(string plate, int number) { int got = await Never.Task; return got + number + plate.Length; }
    public static async Task<string> Outer(string plate) { int got = await Inner(plate, 7); return plate + got; }
}

static class Program
{
    static readonly List<object> kept = new();
    static T Held<T>(T one) { kept.Add(one); return one; }

    static void Main(string[] args)
    {
        var bay = Held(new Bay());
        Book.Keep("bay", () => { Monitor.Enter(bay); Monitor.Enter(bay); });
        for (int i = 1; i <= 3; i++) { Book.Start("bay " + i, () => { lock (bay) { } }); Thread.Sleep(100); }
        Book.Lock("monitor", "Garage.Bay", "bay", 2, "bay 1", "bay 2", "bay 3");
        var thin = Held(new Ramp());
        Book.Keep("thin", () => { Monitor.Enter(thin); Monitor.Enter(thin); Monitor.Enter(thin); });
        Book.Lock("monitor", "Garage.Ramp", "thin", 3);
        var bell = Held(new Bell());
        Book.Start("bell", () => { lock (bell) Monitor.Wait(bell); });
        Book.Lock("monitor.wait", "Garage.Bell", null, 0, "bell");
        var ghost = Held(new Ghost());
        var gone = new Thread(() => Monitor.Enter(ghost)) { Name = "gone" };
        gone.Start(); gone.Join();
        Book.Start("ghost", () => { lock (ghost) { } });
        Book.Lock("monitor", "Garage.Ghost", "gone", 1, "ghost");
        var key = Held(new Lock());
        Book.Keep("key", () => key.Enter());
        Book.Start("key 1", () => { lock (key) { } });
        Book.Lock("lock", "System.Threading.Lock", "key", 1, "key 1");
        var mutex = Held(new Mutex());
        Book.Keep("mutex", () => { mutex.WaitOne(); mutex.WaitOne(); });
        Book.Start("mutex 1", () => mutex.WaitOne());
        Book.Lock("mutex", "System.Threading.Mutex", "mutex", 2, "mutex 1");
        var slim = Held(new SemaphoreSlim(0));
        Book.Start("slim", () => slim.Wait());
        Book.Lock("semaphoreslim", "System.Threading.SemaphoreSlim", null, 0, "slim");
        var signal = Held(new AutoResetEvent(false));
        Book.Start("signal", () => signal.WaitOne());
        Book.Lock("event", "System.Threading.AutoResetEvent", null, 0, "signal");
        var gate = Held(new ReaderWriterLockSlim());
        Book.Keep("reader", () => gate.EnterReadLock());
        Book.Start("writer", () => gate.EnterWriteLock());
        Book.Lock("rwlock", "System.Threading.ReaderWriterLockSlim", null, 0, "writer");
        // A ring: the first has the lift and waits for the mutex; the second has that and waits for the third to end; the
        // third waits for the lift.
        var lift = Held(new Lift()); var crane = Held(new Mutex());
        var go = new ManualResetEvent(false);
        var third = Book.Start("ring 3", () => { go.WaitOne(); Thread.Sleep(300); lock (lift) { } });
        var second = Book.Start("ring 2", () => { crane.WaitOne(); go.WaitOne(); third.Join(); });
        Book.Start("ring 1", () => { lock (lift) { go.Set(); Thread.Sleep(100); crane.WaitOne(); } });
        Book.Lock("monitor", "Garage.Lift", "ring 1", 1, "ring 3");
        Book.Lock("mutex", "System.Threading.Mutex", "ring 2", 1, "ring 1");
        Book.Lock("join", "System.Threading.Thread", "ring 3", 0, "ring 2");
        for (int i = 0; i < 3; i++) Held(Yard.Outer("AB " + i));
        Thread.Sleep(1000);
        Book.Write(args[0]);
        Console.WriteLine("READY");
        Thread.Sleep(Timeout.Infinite);
        GC.KeepAlive(kept);
    }
}
