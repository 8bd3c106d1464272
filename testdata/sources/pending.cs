// Small .NET process to take a test core of: threads that wait for locks, a
// deadlock, an exception that was caught, and async methods that wait for all
// sorts of things. Writes what it knows to the file named by args[0], then waits.
//
// The state machines are written by hand, in the shape that the C# compiler of .NET
// gives to them, since mcs names them in its own way. make-cores.sh puts `<` and
// `>` for the q and Q of their names.
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using System.Threading.Tasks.Sources;

class Contended { }
class DeadA { }
class DeadB { }
class Pulsed { }

class NeverSource : IValueTaskSource<int>
{
    ManualResetValueTaskSourceCore<int> core;
    public short Version { get { return core.Version; } }
    public int GetResult(short token) { return core.GetResult(token); }
    public ValueTaskSourceStatus GetStatus(short token) { return core.GetStatus(token); }
    public void OnCompleted(Action<object> c, object s, short t, ValueTaskSourceOnCompletedFlags f) { core.OnCompleted(c, s, t, f); }
}

static class Work
{
    public static readonly TaskCompletionSource<int> Never = new TaskCompletionSource<int>();
    public static readonly TaskCompletionSource<int> Other = new TaskCompletionSource<int>();
    public static readonly SemaphoreSlim Slots = new SemaphoreSlim(0);
    public static readonly NeverSource Source = new NeverSource();

    struct qInnerQd__1 : IAsyncStateMachine
    {
        public int qQ1__state;
        public AsyncTaskMethodBuilder<int> qQt__builder;
        public int n;
        TaskAwaiter<int> qQu__1;
        public void MoveNext()
        {
            if (qQ1__state < 0)
            {
                qQu__1 = Never.Task.GetAwaiter();
                qQ1__state = 0;
                qQt__builder.AwaitUnsafeOnCompleted(ref qQu__1, ref this);
                return;
            }
            qQt__builder.SetResult(n);
        }
        public void SetStateMachine(IAsyncStateMachine m) { qQt__builder.SetStateMachine(m); }
    }
    [AsyncStateMachine(typeof(qInnerQd__1))]
    public static Task<int> Inner(int n)
    {
        var m = new qInnerQd__1(); m.n = n; m.qQ1__state = -1;
        m.qQt__builder = AsyncTaskMethodBuilder<int>.Create(); m.qQt__builder.Start(ref m); return m.qQt__builder.Task;
    }

    // Two awaiters: the first is done, as its await did not have to wait.
    struct qOuterQd__2 : IAsyncStateMachine
    {
        public int qQ1__state;
        public AsyncTaskMethodBuilder qQt__builder;
        public string text;
        ConfiguredTaskAwaitable.ConfiguredTaskAwaiter qQu__1;
        TaskAwaiter<int> qQu__2;
        public void MoveNext()
        {
            if (qQ1__state < 0)
            {
                qQu__1 = Task.CompletedTask.ConfigureAwait(false).GetAwaiter();
                qQu__1 = new ConfiguredTaskAwaitable.ConfiguredTaskAwaiter();
                qQu__2 = Inner(text.Length).GetAwaiter();
                qQ1__state = 1;
                qQt__builder.AwaitUnsafeOnCompleted(ref qQu__2, ref this);
                return;
            }
            qQt__builder.SetResult();
        }
        public void SetStateMachine(IAsyncStateMachine m) { qQt__builder.SetStateMachine(m); }
    }
    [AsyncStateMachine(typeof(qOuterQd__2))]
    public static Task Outer(string text)
    {
        var m = new qOuterQd__2(); m.text = text; m.qQ1__state = -1;
        m.qQt__builder = AsyncTaskMethodBuilder.Create(); m.qQt__builder.Start(ref m); return m.qQt__builder.Task;
    }

    // Waits for any task. A class, as in builds for debugging; one of two methods of that name.
    sealed class qForQd__3 : IAsyncStateMachine
    {
        public int qQ1__state;
        public AsyncTaskMethodBuilder qQt__builder;
        public Task task;
        TaskAwaiter qQu__1;
        public void MoveNext()
        {
            if (qQ1__state < 0)
            {
                qQu__1 = task.GetAwaiter();
                if (!qQu__1.IsCompleted)
                {
                    qQ1__state = 0;
                    var self = this;
                    qQt__builder.AwaitUnsafeOnCompleted(ref qQu__1, ref self);
                    return;
                }
            }
            qQ1__state = -2;
            qQt__builder.SetResult();
        }
        public void SetStateMachine(IAsyncStateMachine m) { }
    }
    [AsyncStateMachine(typeof(qForQd__3))]
    public static Task For(Task task)
    {
        var m = new qForQd__3(); m.task = task; m.qQ1__state = -1;
        m.qQt__builder = AsyncTaskMethodBuilder.Create(); m.qQt__builder.Start(ref m); return m.qQt__builder.Task;
    }

    struct qForQd__4 : IAsyncStateMachine
    {
        public int qQ1__state;
        public AsyncValueTaskMethodBuilder<int> qQt__builder;
        public ValueTask<int> task;
        ValueTaskAwaiter<int> qQu__1;
        public void MoveNext()
        {
            if (qQ1__state < 0)
            {
                qQu__1 = task.GetAwaiter();
                qQ1__state = 0;
                qQt__builder.AwaitUnsafeOnCompleted(ref qQu__1, ref this);
                return;
            }
            qQt__builder.SetResult(1);
        }
        public void SetStateMachine(IAsyncStateMachine m) { qQt__builder.SetStateMachine(m); }
    }
    [AsyncStateMachine(typeof(qForQd__4))]
    public static ValueTask<int> For(ValueTask<int> task)
    {
        var m = new qForQd__4(); m.task = task; m.qQ1__state = -1;
        m.qQt__builder = AsyncValueTaskMethodBuilder<int>.Create(); m.qQt__builder.Start(ref m); return m.qQt__builder.Task;
    }

    public static void Callback() { }
    public static void Continue(Task task) { }
}

static class App
{
    static readonly object Lock = new Contended();
    static readonly object A = new DeadA(), B = new DeadB(), P = new Pulsed();
    static readonly StringBuilder Tids = new StringBuilder();
    static readonly List<object> Kept = new List<object>();

    [DllImport("libc.so.6", EntryPoint = "syscall")]
    static extern long Syscall0(long nr);

    static void Note(string name)
    {
        const long SysGettid = 186; // x86-64
        lock (Tids) Tids.Append(Tids.Length > 0 ? "," : "").Append("\"").Append(Syscall0(SysGettid)).Append("\":\"").Append(name).Append("\"");
    }

    static void Run(string name, ThreadStart body)
    {
        var t = new Thread(() => { Note(name); body(); }, 256 << 10);
        t.IsBackground = true; t.Name = name; t.Start();
        Thread.Sleep(100);
    }

    static void Take(object first, object second) { lock (first) { Thread.Sleep(600); lock (second) { } } }

    static void Throw()
    {
        try { throw new ArgumentException("caught"); } catch (ArgumentException) { Thread.Sleep(-1); }
    }

    static int Main(string[] args)
    {
        Note("main");
        Monitor.Enter(Lock);
        for (int i = 0; i < 3; i++) Run("blocked-" + i, () => { lock (Lock) { } });
        Run("tried", () => Monitor.TryEnter(Lock, 3600000));
        Run("dead-a", () => Take(A, B));
        Run("dead-b", () => Take(B, A));
        Run("pulsed", () => { lock (P) Monitor.Wait(P); });
        Run("thrower", Throw);

        for (int i = 0; i < 5; i++) Kept.Add(Work.Outer("outer " + i));
        Kept.Add(Work.For(Task.Delay(3600000)));
        Kept.Add(Work.For(Work.Slots.WaitAsync()));
        Kept.Add(Work.For(Work.Slots.WaitAsync()));
        Kept.Add(Work.For(Task.WhenAll(Work.Never.Task, Work.Other.Task)));
        Kept.Add(Work.For(new ValueTask<int>(Work.Source, Work.Source.Version)).AsTask());
        Kept.Add(Work.For(Task.CompletedTask));
        Kept.Add(Work.For(Work.Other.Task).ContinueWith(Work.Continue));
        var called = Work.For(Work.Other.Task); called.GetAwaiter().OnCompleted(Work.Callback); Kept.Add(called);
        Run("waiter", () => Work.For(Work.Other.Task).Wait());
        Run("runner", () => Kept.Add(Work.For(Task.Run(() => Thread.Sleep(-1)))));
        Thread.Sleep(1500);
        File.WriteAllText(args[0], "{\"threads\":{" + Tids + "}}\n");
        Thread.Sleep(-1);
        GC.KeepAlive(Kept);
        return 0;
    }
}
