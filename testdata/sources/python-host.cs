// CPython in a .NET program, by P/Invoke. C# keeps every result by a handle, and releases none. The Python program has a
// list of its own. Usage: python-host RESULTS
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;

namespace Grades;

static class Python
{
    const string Library = "libpython3.11.so.1.0";
    [DllImport(Library)] public static extern void Py_InitializeEx(int signals);
    [DllImport(Library)] public static extern IntPtr PyImport_AddModule(string name);
    [DllImport(Library)] public static extern int PyRun_SimpleString(string text);
    [DllImport(Library)] public static extern IntPtr PyObject_GetAttrString(IntPtr of, string name);
    [DllImport(Library)] public static extern IntPtr PyLong_FromLong(long value);
    [DllImport(Library)] public static extern IntPtr PyObject_CallOneArg(IntPtr function, IntPtr argument);
    [DllImport(Library)] public static extern void Py_DecRef(IntPtr of);
    [DllImport(Library)] public static extern IntPtr PyEval_SaveThread();
}

sealed class PyHandle
{
    readonly IntPtr raw;
    public PyHandle(IntPtr raw) => this.raw = raw;
    public bool Known => raw != IntPtr.Zero;
}

static class Scores
{
    static readonly List<PyHandle> Results = new();

    static void Main(string[] args)
    {
        int results = int.Parse(args[0]);
        Python.Py_InitializeEx(0);
        Python.PyRun_SimpleString(
            "def score(i):\n" +
            "    return {'article': i, 'points': [float(i + k) for k in range(30)], 'label': 'article %d' % i}\n" +
            "own = [score(-i) for i in range(1, 101)]\n");
        var score = Python.PyObject_GetAttrString(Python.PyImport_AddModule("__main__"), "score");
        for (int i = 0; i < results; i++)
        {
            var number = Python.PyLong_FromLong(100000 + i);
            Results.Add(new PyHandle(Python.PyObject_CallOneArg(score, number)));
            Python.Py_DecRef(number);
        }
        Python.PyEval_SaveThread();
        GC.Collect();
        Console.WriteLine($"READY {{\"pid\": {Environment.ProcessId}, \"results\": {results}}}");
        Thread.Sleep(-1);
    }
}
