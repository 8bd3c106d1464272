// Small .NET process with a server GC to take a test core of: small and large objects, and objects with a finalizer.
// Writes what it knows to the file named by args[0], then waits.
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime;
using System.Threading;

namespace Lab
{
    class Crate { public long Number; }

    class Latch { ~Latch() { Program.Closed++; } }

    static class Program
    {
        const int Crates = 6000, Latches = 300, Large = 6, LargeBytes = 200000;

        public static int Closed;
        static readonly List<Crate> Held = new List<Crate>();
        static readonly List<Latch> Latched = new List<Latch>();
        static readonly List<byte[]> Blobs = new List<byte[]>();

        static void Main(string[] args)
        {
            for (int i = 0; i < Crates; i++) Held.Add(new Crate { Number = i });
            for (int i = 0; i < Latches; i++) Latched.Add(new Latch());
            for (int i = 0; i < Large; i++) Blobs.Add(new byte[LargeBytes]);
            GC.Collect();
            GC.WaitForPendingFinalizers();
            GC.Collect();
            File.WriteAllText(args[0], "{\"server\": " + (GCSettings.IsServerGC ? "true" : "false")
                + ", \"heaps\": " + Environment.ProcessorCount + ", \"crates\": " + Crates + ", \"latches\": " + Latches
                + ", \"large\": " + Large + ", \"large_bytes\": " + LargeBytes + "}\n");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
