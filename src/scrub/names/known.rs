//! Words that belong to no program, wherever they occur.

/// Parts of paths, file extensions, and the kernel's names of memory.
const PATHS: &str = "home root usr lib lib64 bin sbin opt app apps srv var tmp etc dev proc shm run mnt media data local share \
    system_root self exe anon memfd deleted heap stack vdso vvar vsyscall anon_inode SYSV zero so dll exe pdb jar class java py \
    pyc pyi core json config runtimeconfig deps cache lib32 x86_64 linux gnu musl amd64 aarch64 arm64 x64 x86 net netcoreapp \
    netstandard dotnet shared Microsoft NETCore AspNetCore App host fxr tools sdk jvm jdk jre openjdk server client modules jsa \
    classes conf site packages dist python python3 dynload cpython main Main obj Debug Release publish src target build build_id \
    doublemapper anon_hugepage io_uring perf_event dri nvidia nvidiactl aio kvm vcpu vsyscall uprobes \
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __gmon_start__ __cxa_finalize etc ld vvar_vclock null pts urandom pipe socket eventfd inotify timerfd hugepages i915 sysv";

/// Names of threads of runtimes and of the C library.
const THREADS: &str = "Thread thread GC VM Periodic Task Compiler CompilerThread CompilerThread0 CompilerThread1 C1 C2 Sweeper \
    Signal Dispatcher Reference Handler Finalizer Common Cleaner Notification Service Monitor Deflation Deflati Attach Listener \
    DestroyJavaVM G1 Conc Refine Young RemSet Sampling Marker ZGC Shenandoah Serial ForkJoinPool commonPool worker Worker pool \
    VirtualThread unblocker unparker NET ThreadPool ThreadP Poo SynchManager SynchManag EventPipe SigHandler Tiered Compilation \
    Compi Tiered Gate Timer timer ttimer BGC Server EventLog IO MainThread Dummy asyncio ThreadPoolExecutor createdump debugger \
    Debugger dotnet SynchManag Finali Long Running Tas Handl Dispatch CompilerThre";

/// Words in coremap's own notes, and names that compilers generate for state machines.
const OTHERS: &str = "MoveNext ctor cctor init clinit lambda access Lambda Proxy GetEnumerator this val values value Program \
    module __main__ __init__ __new__ __del__ coremap";

/// Iterates all of them.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    [PATHS, THREADS, OTHERS].into_iter().flat_map(str::split_whitespace)
}
