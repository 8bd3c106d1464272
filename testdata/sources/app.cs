// Small .NET process to take test cores of: named threads in different waits,
// strings, a few thousand objects, a large byte[]; writes addresses of pinned
// things to the file named by args[0] and then parks.
using System;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

class Node
{
    public Node Next;
    public string Name;
    public int[] Data = new int[4];
    public long Id;
}

static class App
{
    static readonly object Gate = new object();
    static readonly ManualResetEventSlim Slim = new ManualResetEventSlim(false);
    static readonly AutoResetEvent Never = new AutoResetEvent(false);
    static readonly Semaphore Sem = new Semaphore(0, 1);
    static int parked;
    static Node head;
    static string[] names;
    static byte[] big;
    static string marker;
    static GCHandle hMarker, hBig;
    [ThreadStatic] static string perThread;

    [DllImport("libc.so.6", EntryPoint = "syscall")]
    static extern long Syscall0(long nr);

    // managed thread names by kernel tid (3.1 does not hand names to the kernel)
    static readonly StringBuilder Tids = new StringBuilder();

    static void NoteTid(string name)
    {
        const long SysGettid = 186; // x86-64
        lock (Tids)
        {
            if (Tids.Length > 0) Tids.Append(",");
            Tids.Append("\"").Append(Syscall0(SysGettid)).Append("\":\"").Append(name).Append("\"");
        }
    }

    static void Park(string name, Action wait)
    {
        NoteTid(name);
        perThread = "tls-of-" + name;
        Deep(name, 12, wait);
        GC.KeepAlive(perThread);
    }

    static int Deep(string name, int n, Action wait)
    {
        if (n > 0) return Deep(name, n - 1, wait) + name.Length;
        Interlocked.Increment(ref parked);
        wait();
        return 0;
    }

    static void Start(string name, int stack, Action wait)
    {
        ThreadStart body = () => Park(name, wait);
        Thread t = stack == 0 ? new Thread(body) : new Thread(body, stack);
        t.Name = name;
        t.IsBackground = true;
        t.Start();
    }

    static string Hex(IntPtr p) { return "\"0x" + p.ToInt64().ToString("x") + "\""; }

    static int Main(string[] args)
    {
        NoteTid("main");
        var sb = new StringBuilder();
        sb.Append("coremap-").Append("marker-").Append("managed");
        marker = sb.ToString();
        names = new string[500];
        for (int i = 0; i < 4000; i++)
        {
            var n = new Node { Next = head, Id = i };
            if (i % 8 == 0) { n.Name = "node-" + i; names[i / 8] = n.Name; }
            head = n;
        }
        big = new byte[300 * 1000];
        for (int i = 0; i < big.Length; i++) big[i] = (byte)(i % 251 == 0 ? 0xB1 : 0x6B);
        GC.Collect();
        hMarker = GCHandle.Alloc(marker, GCHandleType.Pinned);
        hBig = GCHandle.Alloc(big, GCHandleType.Pinned);

        Start("small-sleep", 256 * 1024, () => Thread.Sleep(Timeout.Infinite));
        Start("small-event", 256 * 1024, () => Never.WaitOne());
        Start("small-monitor", 256 * 1024, () => { lock (Gate) Monitor.Wait(Gate); });
        Start("small-slim", 256 * 1024, () => Slim.Wait());
        Start("small-sem", 256 * 1024, () => Sem.WaitOne());
        Start("small-spin", 256 * 1024, () => { for (;;) Thread.Sleep(50); });
        Start("default-sleep", 0, () => Thread.Sleep(Timeout.Infinite));
        Start("default-event", 0, () => Never.WaitOne());
        Start("onemeg-sleep", 1024 * 1024, () => Thread.Sleep(Timeout.Infinite));
        var dead = new Thread(() => { perThread = "gone"; NoteTid("dead-joined"); }, 256 * 1024);
        dead.Name = "dead-joined";
        dead.Start();
        dead.Join();
        while (Volatile.Read(ref parked) < 9) Thread.Sleep(5);
        Thread.Sleep(200);

        using (var w = new StreamWriter(args[0]))
        {
            w.Write("{\"marker_utf16_chars\":" + Hex(hMarker.AddrOfPinnedObject()) +
                    ",\"marker_text\":\"" + marker + "\"" +
                    ",\"big_byte_array_data\":" + Hex(hBig.AddrOfPinnedObject()) +
                    ",\"big_byte_array_len\":" + big.Length +
                    ",\"nodes\":4000,\"managed_threads\":{" + Tids + "}}\n");
        }
        Thread.Sleep(Timeout.Infinite);
        GC.KeepAlive(head);
        GC.KeepAlive(names);
        return 0;
    }
}
