#!/bin/bash
# Makes the cores and truth files in ../cores anew.
#   make-cores.sh [dotnet-kernel|dotnet-gcore|dotnet-createdump|dotnet-pending|dotnet-server|
#                  native-kernel|native-leaks|two-libcs|shapes|fibers|forked|waits|ends|musl-gcore|musl-leaks|musl-slots|jemalloc-leaks|tcmalloc-leaks|aarch64-qemu|resident|zoo|go|all]
#
# Needs (Debian 12 names): gcc gdb golang-go mono-mcs musl-tools gcc-aarch64-linux-gnu
# libc6-dev-arm64-cross qemu-user-static zstd xz-utils gzip lz4 python3-venv, and the
# PyPI package dotnetcore2==3.1.23 (it holds a .NET Core 3.1.23 runtime with
# createdump). The kernel's core_pattern must be plain "core" and ptrace
# must be allowed. Everything runs in $LAB (default /tmp/lab) with an empty
# environment, so that the cores hold nothing of the machine that made them.
# Addresses, pids and so on differ from run to run; the truth files tell them.
set -eu
SRC=$(cd "$(dirname "$0")" && pwd)
OUT=$(cd "$SRC/.." && pwd)/cores
LAB=${LAB:-/tmp/lab}
WHAT=${1:-all}
FX=dotnet/shared/Microsoft.NETCore.App/3.1.23
mkdir -p "$OUT" "$LAB"
cd "$LAB"

[ "$(cat /proc/sys/kernel/core_pattern)" = core ] || {
    echo "kernel.core_pattern must be 'core'" >&2; exit 1; }

build_dotnet() {
    if [ ! -x dotnet/dotnet ]; then
        python3 -m venv venv
        venv/bin/pip install -q dotnetcore2==3.1.23
        cp -r venv/lib/python3*/site-packages/dotnetcore2/bin dotnet
    fi
    mcs -nostdlib -noconfig -langversion:7 -optimize+ -out:app.dll \
        -r:$FX/System.Private.CoreLib.dll -r:$FX/System.Runtime.dll \
        -r:$FX/System.Threading.Thread.dll "$SRC/app.cs"
    cat > app.runtimeconfig.json <<'J'
{"runtimeOptions":{"framework":{"name":"Microsoft.NETCore.App","version":"3.1.23"},
 "configProperties":{"System.GC.Concurrent":true,"System.Globalization.Invariant":true}}}
J
    gcc -O1 -g0 -shared -fPIC -o stacktrace_interposer.so "$SRC/stacktrace_interposer.c" -ldl
}

# writes $RUN/truth.json of the running process $PID, called just before the dump
truth() { # producer
    cat "/proc/$PID/maps" > "$RUN/host-maps.txt"
    : > "$RUN/comms.txt"
    for t in "/proc/$PID/task"/*; do
        printf '%s %s\n' "$(basename "$t")" "$(cat "$t/comm")" >> "$RUN/comms.txt"
    done
    RUN=$RUN PID=$PID PRODUCER=$1 GUEST=${GUEST:-} python3 - <<'P'
import json, os
run, pid = os.environ["RUN"], int(os.environ["PID"])
comms = dict(l.rstrip("\n").split(" ", 1) for l in open(run + "/comms.txt"))
live, gone = {}, []
for line in open(run + "/threads.jsonl"):
    e = json.loads(line)
    if e.pop("ev") == "end":
        gone.append(live.pop(e["tid"]))
    else:
        live[e["tid"]] = e
for tid in [t for t in live if str(t) not in comms]:   # left without returning
    gone.append(live.pop(tid))
markers = json.load(open(run + "/markers.json"))
managed = markers.pop("managed_threads", None)
maps = open(run + ("/maps.txt" if os.environ["GUEST"] else "/host-maps.txt")).read()
t = {"producer": os.environ["PRODUCER"], "pid": pid,
     "threads": list(live.values()), "ended_threads": gone,
     "comms": comms, "markers": markers}
if managed is not None:
    t["managed_threads"] = managed
t["maps"] = maps
head = json.dumps(t, indent=1)
open(run + "/truth.json", "w").write(head + "\n")
P
}

fresh() { RUN=$LAB/run-$1; rm -rf "$RUN"; mkdir -p "$RUN"; }
ready() {
    for _ in $(seq 100); do [ -s "$RUN/markers.json" ] && break; sleep 0.2; done
    [ -s "$RUN/markers.json" ] || { echo "not ready: $RUN" >&2; cat "$RUN/out" >&2; exit 1; }
    sleep "${SETTLE:-1}"
}
gone() { for _ in $(seq 100); do [ -e "/proc/$PID/stat" ] || return 0; sleep 0.2; done; }
stop() { kill -KILL "$PID"; wait "$PID" 2>/dev/null || true; }

dotnet_run() { # name [extra environment...]; VLIMIT: ulimit -v in KiB
    fresh "$1"; shift
    (
        ulimit -c unlimited
        ulimit -v "${VLIMIT:-unlimited}"
        cd "$RUN"
        exec env -i PATH=/usr/bin HOME="$LAB" LANG=C \
            DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 \
            COMPlus_DefaultStackSize=80000 COMPlus_gcServer=0 \
            COMPlus_GCHeapHardLimit="${HARDLIMIT:-2000000}" "$@" \
            STACKTRACE_OUT="$RUN/threads.jsonl" \
            LD_PRELOAD="$LAB/stacktrace_interposer.so" \
            "$LAB/dotnet/dotnet" "$LAB/app.dll" "$RUN/markers.json"
    ) > "$RUN/out" 2>&1 &
    PID=$!
    # the tiered-compilation and pool threads leave after some seconds
    SETTLE=2 ready
}

native_run() { # name program interposer [emulator...]
    local name=$1 prog=$2 pre=$3
    shift 3
    fresh "$name"
    rm -f /dev/shm/coremap-test-shm
    (
        ulimit -c unlimited
        cd "$RUN"
        if [ $# -gt 0 ]; then
            exec env -i PATH=/usr/bin HOME="$LAB" LANG=C \
                STACKTRACE_OUT="$RUN/threads.jsonl" \
                "$@" -E LD_PRELOAD="$LAB/$pre" \
                "$LAB/$prog" "$RUN/markers.json" "$RUN/maps.txt" "$RUN"
        fi
        exec env -i PATH=/usr/bin HOME="$LAB" LANG=C \
            STACKTRACE_OUT="$RUN/threads.jsonl" LD_PRELOAD="$LAB/$pre" \
            "$LAB/$prog" "$RUN/markers.json" "$RUN/maps.txt" "$RUN"
    ) > "$RUN/out" 2>&1 &
    PID=$!
    ready
}

core_file() { # the one core the kernel wrote in $RUN, whether with or without pid
    local c
    for c in "$RUN"/core "$RUN"/core.*; do [ -f "$c" ] && { echo "$c"; return; }; done
    echo "no core in $RUN" >&2; exit 1
}

gcore_to() { # file
    gdb -nx -batch -p "$PID" -ex "gcore $1" > "$RUN/gdb.log" 2>&1
    [ -s "$1" ]
}

deliver() { # core stem ext
    mkdir -p "$OUT/$2"
    cp "$RUN/truth.json" "$OUT/$2/truth.json"
    rm -f "$OUT/$2/core.$3"
    case $3 in
    zst) zstd -q --ultra -22 --long=27 "$1" -o "$OUT/$2/core.zst" ;;
    xz) xz -9e -c "$1" > "$OUT/$2/core.xz" ;;
    gz) gzip -9 -n -c "$1" > "$OUT/$2/core.gz" ;;
    lz4) lz4 -q -12 --content-size "$1" "$OUT/$2/core.lz4" ;;
    esac
    chmod 644 "$OUT/$2/core.$3"
    printf '%s: %s bytes, packed %s\n' "$2" "$(stat -c %s "$1")" "$(stat -c %s "$OUT/$2/core.$3")"
}

dotnet_kernel() {
    build_dotnet
    dotnet_run dotnet31-kernel
    echo 0x33 > "/proc/$PID/coredump_filter"
    truth "kernel $(uname -r | cut -d- -f1), coredump_filter 0x33; SIGABRT to thread small-event"
    python3 - "$RUN/truth.json" <<'P'
import ctypes, json, sys
t = json.load(open(sys.argv[1]))
tid = [int(k) for k, v in t["managed_threads"].items() if v == "small-event"][0]
SYS_TGKILL, SIGABRT = 234, 6  # x86-64
sys.exit(ctypes.CDLL(None).syscall(SYS_TGKILL, t["pid"], tid, SIGABRT))
P
    gone
    deliver "$(core_file)" dotnet31-kernel zst
}

dotnet_gcore() {
    # gdb 13 writes PROT_NONE reserves as zeros too; the address space limit
    # makes the runtime reserve less, so that the core unpacks to less than 3 GB
    build_dotnet
    VLIMIT=${VLIMIT:-170000} HARDLIMIT=1000000 dotnet_run dotnet31-gcore MALLOC_ARENA_MAX=2
    truth "$(gdb --version | head -1) gcore"
    gcore_to "$RUN/g.core"
    stop
    deliver "$RUN/g.core" dotnet31-gcore xz
}

dotnet_createdump() {
    build_dotnet
    dotnet_run dotnet31-createdump
    truth "createdump of .NET Core 3.1.23 --withheap"
    "$FX/createdump" --withheap -f "$RUN/cd.core" "$PID" > "$RUN/cd.log" 2>&1
    stop
    deliver "$RUN/cd.core" dotnet31-createdump zst
}

# dump_dotnet NAME VARIABLE=VALUE DUMP COMMANDS: runs NAME.dll, dumps it by createdump, and keeps what COMMANDS read.
# Needs coremap itself.
dump_dotnet() {
    cp app.runtimeconfig.json "$1.runtimeconfig.json"
    (
        cd "$RUN"
        exec env -i PATH=/usr/bin HOME="$LAB" LANG=C DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 "$2" \
            "$LAB/dotnet/dotnet" "$LAB/$1.dll" "$RUN/markers.json"
    ) > "$RUN/out" 2>&1 &
    PID=$!
    ready
    "$FX/createdump" "$3" -f "$RUN/cd.core" "$PID" > "$RUN/cd.log" 2>&1
    stop
    "${COREMAP:-coremap}" shrink --for "$4" -o "$RUN/s.core" "$RUN/cd.core"
    mkdir -p "$OUT/dotnet31-$1"
    xz -9e -c "$RUN/s.core" > "$OUT/dotnet31-$1/core.xz"
}

dotnet_pending() {
    build_dotnet
    fresh pending
    mcs -nostdlib -noconfig -langversion:7 -optimize+ -out:pending.dll \
        -r:$FX/System.Private.CoreLib.dll -r:$FX/System.Runtime.dll \
        -r:$FX/System.Runtime.Extensions.dll -r:$FX/System.IO.FileSystem.dll "$SRC/pending.cs"
    # names as the C# compiler of .NET makes them, of the same length
    python3 - <<'P'
import re
b = open("pending.dll", "rb").read()
open("pending.dll", "wb").write(re.sub(rb"q([A-Za-z]*)Q(d__\d|1__state|t__builder|u__\d)", rb"<\1>\2", b))
P
    dump_dotnet pending COMPlus_GCHeapHardLimit=2000000 --full async
}

dotnet_server() {
    build_dotnet
    fresh server
    mcs -out:server.dll "$SRC/server.cs"
    dump_dotnet server COMPlus_gcServer=1 --withheap info,summary,heap,objects,finalizers
    cp "$RUN/markers.json" "$OUT/dotnet31-server/truth.json"
}

native_kernel() {
    gcc -O1 -g0 -pthread -o native "$SRC/native.c"
    gcc -O1 -g0 -shared -fPIC -o stacktrace_interposer.so "$SRC/stacktrace_interposer.c" -ldl
    native_run native-glibc-kernel native stacktrace_interposer.so
    echo 0x33 > "/proc/$PID/coredump_filter"
    truth "kernel $(uname -r | cut -d- -f1), coredump_filter 0x33; SIGSEGV in thread w-big"
    kill -USR2 "$PID"
    gone
    rm -f /dev/shm/coremap-test-shm
    deliver "$(core_file)" native-glibc-kernel gz
}

# glibc from 2.42 on, on kernels from 6.13 on, has guards within the mappings of stacks. ROOT: a root folder of a Debian that
# has such a glibc and /proc mounted, with gcc and libc6-dev (debootstrap --variant=minbase --include=gcc,libc6-dev forky ROOT).
native_guards() {
    local name=native-glibc243-kernel
    cp "$SRC/native.c" "$SRC/stacktrace_interposer.c" "$ROOT/"
    chroot "$ROOT" gcc -O1 -g0 -pthread -o /native /native.c
    chroot "$ROOT" gcc -O1 -g0 -shared -fPIC -o /stacktrace_interposer.so /stacktrace_interposer.c
    mkdir -p "$ROOT/lab"
    LAB=$ROOT/lab fresh $name
    local inside=${RUN#"$ROOT"}
    (
        ulimit -c unlimited
        exec chroot "$ROOT" env -i -C "$inside" LD_PRELOAD=/stacktrace_interposer.so STACKTRACE_OUT="$inside/threads.jsonl" \
            /native "$inside/markers.json" "$inside/maps.txt" "$inside"
    ) > "$RUN/out" 2>&1 &
    PID=$!
    ready
    echo 0x33 > "/proc/$PID/coredump_filter"
    GUEST=1 truth "kernel $(uname -r | cut -d- -f1), coredump_filter 0x33; SIGSEGV in thread w-big"
    kill -USR2 "$PID"
    gone
    rm -f "$ROOT/dev/shm/coremap-test-shm"
    deliver "$(core_file)" $name zst
}

# Tells its truth on stdout and aborts.
native_leaks() {
    gcc -O1 -o leaks "$SRC/leaks.c" -lpthread
    RUN=$LAB/run-leaks
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; env -i "$LAB/leaks" > truth.json) || true
    deliver "$(core_file)" native-leaks zst
}

# A program and a plug-in, each with a C library of its own. Its source has the blocks.
two_libcs() {
    gcc -O1 -o two-libcs "$SRC/two-libcs.c" -ldl
    gcc -O1 -shared -fPIC -o plug.so "$SRC/two-libcs-plug.c"
    RUN=$LAB/run-two-libcs
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; exec env -i "$LAB/two-libcs" "$LAB/plug.so" > out) &
    PID=$!
    sleep 1
    kill -ABRT $PID
    wait $PID || true
    deliver "$(core_file)" two-libcs zst
}

# One core of each shape; tells its truth on stdout and aborts.
shapes() {
    gcc -O1 -o shapes "$SRC/shapes.c" -lpthread
    local shape
    for shape in mmap nodes vector ended memfd; do
        RUN=$LAB/run-$shape
        rm -rf "$RUN"; mkdir "$RUN"
        (cd "$RUN"; ulimit -c unlimited; env -i "$LAB/shapes" "$shape" > truth.json) || true
        deliver "$(core_file)" "shape-$shape" zst
    done
}

# Tells its truth on stdout and aborts.
fibers() {
    gcc -O1 -o fibers "$SRC/fibers.c" -lpthread
    RUN=$LAB/run-fibers
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; env -i "$LAB/fibers" > truth.json) || true
    deliver "$(core_file)" native-fibers zst
}

waits() {
    gcc -O1 -g0 -pthread -o waits "$SRC/waits.c"
    RUN=$LAB/run-waits
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; env -i "$LAB/waits" > truth.json & PID=$!; sleep 5; kill -ABRT $PID; wait $PID || true)
    deliver "$(core_file)" waits-kernel zst
}

# the end of each program: what it wrote to stderr is the truth
ends() {
    cp "$SRC"/ends.* .  # asserts and panics print the path of their source
    gcc -O1 -g0 -w -o ends-c ends.c
    g++ -O1 -g0 -pthread -o ends-cpp ends.cpp
    rustc -O -C panic=abort -o ends-rs ends.rs
    for end in "assert ends-c assert" "overrun ends-c overrun" "text ends-c text" "exception ends-cpp" "panic ends-rs"; do
        set -- $end
        name=$1; shift
        RUN=$LAB/run-ends-$name
        rm -rf "$RUN"; mkdir "$RUN"
        (cd "$RUN"; ulimit -c unlimited; PROGRAM=$LAB/$1; shift
         env -i "$PROGRAM" "$@" > stdout.txt 2> stderr.txt || true)
        RUN=$RUN python3 -c 'import json, os
run = os.environ["RUN"]
read = lambda name: open(f"{run}/{name}.txt").read()
print(json.dumps({"stderr": read("stderr"), "stdout": json.loads(read("stdout") or "null")}, indent=1))' > "$RUN/truth.json"
        deliver "$(core_file)" "ends-$name" zst
    done
}

forked() {
    gcc -O1 -g0 -pthread -o forked "$SRC/forked.c"
    RUN=$LAB/run-forked
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; env -i "$LAB/forked" > truth.json)
    deliver "$(core_file)" forked-kernel zst
}

musl_gcore() {
    musl-gcc -O1 -g0 -pthread -o native-musl "$SRC/native.c"
    musl-gcc -O1 -g0 -shared -fPIC -o stacktrace_interposer-musl.so "$SRC/stacktrace_interposer.c"
    native_run native-musl-gcore native-musl stacktrace_interposer-musl.so
    truth "$(gdb --version | head -1) gcore, musl"
    gcore_to "$RUN/g.core"
    stop
    rm -f /dev/shm/coremap-test-shm
    deliver "$RUN/g.core" native-musl-gcore lz4
}

musl_leaks() {
    musl-gcc -O1 -g0 -o leaks-musl "$SRC/leaks.c"
    RUN=$LAB/run-musl-leaks
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; env -i "$LAB/leaks-musl" > truth.json) || true
    deliver "$(core_file)" musl-leaks zst
}

preloaded_leaks() { # name library
    gcc -O1 -o leaks "$SRC/leaks.c" -lpthread
    RUN=$LAB/run-$1
    rm -rf "$RUN"; mkdir "$RUN"
    (cd "$RUN"; ulimit -c unlimited; env -i LD_PRELOAD="$2" "$LAB/leaks" > truth.json) || true
    deliver "$(core_file)" "$1" zst
}
jemalloc_leaks() { preloaded_leaks jemalloc-leaks libjemalloc.so.2; }
tcmalloc_leaks() { preloaded_leaks tcmalloc-leaks libtcmalloc_minimal.so.4; }

musl_slots() {
    musl-gcc -O1 -g0 -static -o slots "$SRC/slots.c"
    RUN=$LAB/run-musl-slots
    rm -rf "$RUN"; mkdir "$RUN"
    (cd / && exec env -i "$LAB/slots" > "$RUN/truth.json") &
    PID=$!
    sleep 1
    gcore -o "$RUN/g" "$PID" > /dev/null
    kill -KILL "$PID"; wait "$PID" 2> /dev/null || true
    deliver "$RUN/g.$PID" musl-slots zst
}

aarch64_qemu() {
    aarch64-linux-gnu-gcc -O1 -g0 -pthread -o native-aarch64 "$SRC/native.c"
    aarch64-linux-gnu-gcc -O1 -g0 -shared -fPIC -o stacktrace_interposer-aarch64.so \
        "$SRC/stacktrace_interposer.c" -ldl
    native_run native-aarch64-qemu native-aarch64 stacktrace_interposer-aarch64.so \
        qemu-aarch64-static -L /usr/aarch64-linux-gnu
    # the maps of the guest, as qemu tells them to the guest
    GUEST=1 truth "$(qemu-aarch64-static --version | head -1), its own guest core; SIGSEGV in thread w-big"
    kill -USR2 "$PID"
    gone
    rm -f /dev/shm/coremap-test-shm
    for c in "$RUN"/qemu_*.core; do deliver "$c" native-aarch64-qemu zst; done
}

# A program that ends its truth with `ready PID`, dumped both ways.
both_ways() { # stem truth-file program [arguments...]
    local stem=$1 told=$2 how
    shift 2
    for how in kernel gcore; do
        fresh "$stem-$how"
        (
            ulimit -c unlimited
            cd "$RUN"
            exec env -i GOTRACEBACK=crash GOMAXPROCS=2 "$@"
        ) > "$RUN/out" 2> "$RUN/err" &
        for _ in $(seq 100); do grep -q ^ready "$RUN/$told" 2> /dev/null && break; sleep 0.2; done
        sleep 1
        PID=$(awk '/^ready/ { print $2 }' "$RUN/$told")
        sed 's/^/map /' "/proc/$PID/maps" > "$RUN/told"
        grep -v ^ready "$RUN/$told" >> "$RUN/told" || true
        echo 0x33 > "/proc/$PID/coredump_filter"
        case $how in
        kernel) kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true ;;
        gcore) gcore_to "$RUN/core"; stop ;;
        esac
        # What Go's own report of the crash says of each thread: where it was.
        sed -n 's/^\(r[si]p\) *0x/interrupted \1 0x/p' "$RUN/err" >> "$RUN/told"
        mkdir -p "$OUT/$stem-$how"
        cp "$RUN/told" "$OUT/$stem-$how/truth.txt"
        zstd -q --ultra -22 --long=27 -f "$(core_file)" -o "$OUT/$stem-$how/core.zst"
        chmod 644 "$OUT/$stem-$how/core.zst"
    done
}

# What /proc says of the stopped process $PID: its smaps behind its status, and which pages are in RAM, of this process alone
# and in swap, by pagemap (bits 63, 56, 62) without the zero page (/proc/kpageflags, bit 24), which no RSS counts. For root.
residence() { # folder
    cat "/proc/$PID/status" "/proc/$PID/smaps" > "$1/smaps.txt"
    PID=$PID python3 - > "$1/pages.json" <<'P'
import json, os, struct
pid = os.environ["PID"]
maps = [line.split()[0].split("-") for line in open(f"/proc/{pid}/maps") if "vsyscall" not in line]
flags = open("/proc/kpageflags", "rb", buffering=0)
runs = {"resident": [], "private": [], "swapped": []}
def add(into, at):
    if into and into[-1][1] == at:
        into[-1][1] = at + 4096
    else:
        into.append([at, at + 4096])
with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
    for start, end in ((int(a, 16), int(b, 16)) for a, b in maps):
        pagemap.seek(start // 4096 * 8)
        words = pagemap.read((end - start) // 4096 * 8)
        for i, (word,) in enumerate(struct.iter_unpack("<Q", words)):
            at = start + i * 4096
            if word >> 63 & 1:
                flags.seek((word & (1 << 55) - 1) * 8)
                if struct.unpack("<Q", flags.read(8))[0] >> 24 & 1:
                    continue
                add(runs["resident"], at)
                if word >> 56 & 1:
                    add(runs["private"], at)
            elif word >> 62 & 1:
                add(runs["swapped"], at)
print(json.dumps({kind: [[hex(a), hex(b)] for a, b in list] for kind, list in runs.items()}, indent=None))
P
}

# Dumped both ways in one stop, of which what /proc says comes first: gdb reads files' pages, which makes them resident.
resident() {
    gcc -O1 -g0 -pthread -o resident "$SRC/resident.c"
    fresh resident
    (ulimit -c unlimited; cd "$RUN"; exec env -i "$LAB/resident" .) > "$RUN/out" 2>&1 &
    for _ in $(seq 100); do grep -q ^ready "$RUN/out" 2> /dev/null && break; sleep 0.2; done
    sleep 1
    PID=$(awk '/^ready/ { print $2 }' "$RUN/out")
    local child how
    child=$(awk '/^child/ { print $2 }' "$RUN/out")
    kill -STOP "$PID"
    residence "$RUN"
    gcore_to "$RUN/g.core"
    echo 0x33 > "/proc/$PID/coredump_filter"
    kill -ABRT "$PID"; kill -CONT "$PID"; wait "$PID" 2> /dev/null || true
    kill -KILL "$child"
    for how in kernel gcore; do
        mkdir -p "$OUT/resident-$how"
        cp "$RUN/smaps.txt" "$RUN/pages.json" "$OUT/resident-$how/"
        rm -f "$OUT/resident-$how/core.zst"
    done
    zstd -q --ultra -22 --long=27 "$RUN/g.core" -o "$OUT/resident-gcore/core.zst"
    rm "$RUN/g.core"
    zstd -q --ultra -22 --long=27 "$(core_file)" -o "$OUT/resident-kernel/core.zst"
    chmod 644 "$OUT"/resident-*/core.zst
}

zoo() {
    gcc -O1 -g0 -pthread -o zoo "$SRC/zoo.c"
    # Pages for its mapping with MAP_HUGETLB.
    echo 4 > /proc/sys/vm/nr_hugepages
    both_ways zoo truth.txt "$LAB/zoo" .
}

go_program() {
    env -i PATH=/usr/bin HOME="$LAB" CGO_ENABLED=0 \
        go build -trimpath -ldflags=-s -o goroutines "$SRC/goroutines.go"
    both_ways go out "$LAB/goroutines"
}

# What the allocator says of itself is the first word of its output.
foreign() {
    gcc -O1 -g0 -pthread -o foreign "$SRC/foreign.c"
    for stem in jemalloc php; do
        fresh "foreign-$stem"; mkdir -p "$RUN"
        case $stem in
        jemalloc) set -- LD_PRELOAD=libjemalloc.so.2 "$LAB/foreign" ;;
        php) set -- /usr/bin/php -n "$SRC/foreign.php" ;;
        esac
        (cd "$RUN" && ulimit -c unlimited && exec env -i "$@" > out) &
        PID=$!
        until grep -q ready "$RUN/out"; do sleep 0.2; done
        kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
        mkdir -p "$OUT/foreign-$stem"
        rm -f "$RUN/small"
        coremap shrink "$(core_file)" -o "$RUN/small" --for info --for summary --for regions
        zstd -q -19 --long=27 -f "$RUN/small" -o "$OUT/foreign-$stem/core.zst"
        cat "$RUN/out"
    done
}

# java_program NAME HOME [virtual]: HOME is that of a JDK
java_program() {
    RUN=$LAB/$1; HOME_OF_JDK=$2; shift 2
    rm -rf "$RUN"; mkdir -p "$RUN"; cd "$RUN"
    "$JAVAC" --release 17 -d . "$SRC/JavaThreads.java"
    # Only these are compiled, so that all other frames are interpreted.
    (ulimit -c unlimited && exec env -i "$HOME_OF_JDK/bin/java" -XX:+UseSerialGC -Xmx16m -XX:ReservedCodeCacheSize=16m \
        -XX:CompressedClassSpaceSize=16m -XX:-UsePerfData -Djdk.virtualThreadScheduler.parallelism=3 -Xbatch \
        -XX:CompileCommand=quiet -XX:TieredStopAtLevel=1 '-XX:CompileCommand=compileonly,JavaThreads$*::*' -cp . JavaThreads "$@" > out) &
    PID=$!
    until grep -q ready "$RUN/out"; do sleep 0.2; done
    NAME=$(basename "$RUN"); mkdir -p "$OUT/$NAME"
    "$HOME_OF_JDK/bin/jcmd" "$PID" Thread.print -l > "$OUT/$NAME/jstack.txt"
    [ $# = 0 ] || "$HOME_OF_JDK/bin/jcmd" "$PID" Thread.dump_to_file -format=json "$OUT/$NAME/dump.json"
    # With the pages of libjvm.
    echo 0x37 > "/proc/$PID/coredump_filter"
    kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
    rm -f "$RUN/small"
    coremap shrink "$(core_file)" -o "$RUN/small" --for info --for threads --for virtual-threads
    zstd -q -19 --long=27 -f "$RUN/small" -o "$OUT/$NAME/core.zst"
}

# All that the commands about a heap read, of OffHeap.java.
java_offheap() {
    RUN=$LAB/java17-offheap
    rm -rf "$RUN"; mkdir -p "$RUN"; cd "$RUN"
    "$JAVAC" --release 17 -d . "$SRC/OffHeap.java"
    (ulimit -c unlimited && exec env -i "$JDK17/bin/java" -XX:+UseSerialGC -Xmx16m -XX:ReservedCodeCacheSize=16m \
        -XX:CompressedClassSpaceSize=16m -XX:-UsePerfData -XX:TieredStopAtLevel=1 -cp . OffHeap > out) &
    PID=$!
    until grep -q ready "$RUN/out"; do sleep 0.2; done
    mkdir -p "$OUT/java17-offheap"
    # Looking changes little: it makes strings for its answer.
    "$JDK17/bin/jcmd" "$PID" GC.class_histogram -all | sed 1d > "$OUT/java17-offheap/histogram.txt"
    echo 0x37 > "/proc/$PID/coredump_filter"
    kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
    rm -f "$RUN/small"
    coremap shrink "$(core_file)" -o "$RUN/small" --for info --for summary --for regions --for objects
    zstd -q -19 --long=27 -f "$RUN/small" -o "$OUT/java17-offheap/core.zst"
}

# All that the commands about a heap read, of Humongous.java. What jcmd says is added to truth.json by hand.
java_humongous() {
    RUN=$LAB/java17-humongous
    rm -rf "$RUN"; mkdir -p "$RUN"; cd "$RUN"
    "$JAVAC" --release 17 -d . "$SRC/Humongous.java"
    env -i "$JDK17/bin/java" -XX:+UseG1GC -XX:G1HeapRegionSize=1m -Xms32m -Xmx32m -XX:-UsePerfData -cp . Humongous > out &
    PID=$!
    until grep -q arrays "$RUN/out"; do sleep 0.2; done
    mkdir -p "$OUT/java17-humongous"
    cat "$RUN/out"
    "$JDK17/bin/jcmd" "$PID" GC.heap_info
    gcore -o "$RUN/core" "$PID"
    kill "$PID"; wait "$PID" 2> /dev/null || true
    coremap shrink "$RUN/core.$PID" -o "$RUN/small" --for info --for objects --for summary
    zstd -q -19 --long=27 -f "$RUN/small" -o "$OUT/java17-humongous/core.zst"
}

# JDK17 and JDK25: homes of the two.
java() {
    JAVAC=$JDK17/bin/javac
    java_offheap
    java_humongous
    java_program java17-threads "$JDK17"
    java_program java25-virtual "$JDK25" virtual
}

# JDK 17. Its own filter for cores is wider than what is asked for; that of the shell is kept as it is. jcmd's answer and
# the program's own are put together in truth.json by hand.
java_map() {
    javac -nowarn -d "$RUN" "$SRC/Buffers.java"
    (cd "$RUN" && ulimit -c unlimited && exec env -i PATH=/usr/bin MALLOC_ARENA_MAX=2 java -Xmx8m -Xms8m -XX:+UseSerialGC \
        -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=8m -XX:NativeMemoryTracking=summary -XX:-UsePerfData \
        Buffers "$RUN/mapped.bin" > out) &
    PID=$!
    until grep -q loaders "$RUN/out"; do sleep 0.2; done
    jcmd "$PID" VM.native_memory summary > "$RUN/nmt"
    kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
    mkdir -p "$OUT/java17-serial-map"
    rm -f "$RUN/small"
    coremap shrink "$(core_file)" -o "$RUN/small" --for info --for summary --for regions
    zstd -q -19 --long=27 -f "$RUN/small" -o "$OUT/java17-serial-map/core.zst"
    cat "$RUN/out" "$RUN/nmt"
}

# One core: NAME PYTHON [tasks]. PYTHON may be `chroot DIR python3`: caches.py is then in DIR.
python_program() {
    local name=$1 root=$2 python=$3
    shift 3
    rm -rf "$root/lab"; mkdir -p "$root/lab"; cp "$SRC/caches.py" "$root/lab/"
    echo 0x33 > /proc/self/coredump_filter
    (ulimit -c unlimited && cd "$root/lab" && exec env -i chroot "${root:-/}" /bin/sh -c \
        "cd /lab && exec $python -I -S caches.py /lab $*" > "$RUN/out") &
    PID=$!
    until grep -q READY "$RUN/out"; do sleep 0.2; done
    sleep 0.5
    kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
    mkdir -p "$OUT/$name"
    cp "$root"/lab/{truth.json,census.txt,obmalloc.txt} "$OUT/$name/"
    zstd -q -19 --long=27 -f "$root/lab/core" -o "$OUT/$name/core.zst"
    rm -rf "$root/lab"
}

# SDK: a root of .NET 11.0.0 with csc11 (compiles FILE.cs… -o DIR) and run11 (runs it with an empty environment).
dotnet11() {
    dump="$SDK/shared/Microsoft.NETCore.App/11.0.0/createdump"
    "$SDK/csc11" "$SRC/unloading.cs" -o "$RUN"
    "$SDK/csc11" "$SRC/unloading-plugin.cs" -o "$RUN" -target:library
    "$SDK/csc11" "$SRC/python-host.cs" -o "$RUN"
    dotnet11_core dotnet11-unloading --withheap info,summary,regions,stacks,heap,threads,objects,malloc \
        unloading.dll "$RUN/unloading-plugin.dll"
    dotnet11_core dotnet11-python --full info,objects python-host.dll 2000
}

dotnet11_core() {
    name=$1 kind=$2 commands=$3; shift 3
    (cd "$RUN"; DOTNET_GCHeapHardLimit=0x2000000 exec "$SDK/run11" "$@" > ready) &
    PID=$!
    until grep -q READY "$RUN/ready"; do sleep 0.2; done
    "$dump" "$kind" -f "$RUN/core" "$PID"
    kill "$PID"; wait "$PID" 2> /dev/null || true
    mkdir -p "$OUT/$name"
    "${COREMAP:-coremap}" shrink "$RUN/core" -o "$RUN/small" --for "$commands"
    zstd -q -19 --long=27 -f "$RUN/small" -o "$OUT/$name/core.zst"
    rm -f "$RUN/core" "$RUN/small" "$RUN/ready"
}

# ROOTS: a folder with Debian's suites of these names, each with python3 (mmdebstrap --include=python3).
python() {
    python_program python39 "$ROOTS/bullseye" /usr/bin/python3.9
    python_program python311 "$ROOTS/bookworm" /usr/bin/python3.11
    python_program python313-tasks "$ROOTS/trixie" /usr/bin/python3.13 tasks
    python_program python314 "$ROOTS/forky" /usr/bin/python3.14
    python_frames
    python_holdings
}

python_frames() {
    cp "$SRC/frames.py" "$RUN/"
    (echo 0x33 > /proc/self/coredump_filter; ulimit -c unlimited; cd "$RUN"
        exec env -i PATH=/usr/bin:/bin python3.11 -I -S frames.py truth.json) &
    PID=$!
    until [ -s "$RUN/truth.json" ]; do sleep 0.2; done
    sleep 0.5
    kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
    mkdir -p "$OUT/python311-frames"
    cp "$RUN/truth.json" "$OUT/python311-frames/"
    zstd -q -19 --long=27 -f "$(core_file)" -o "$OUT/python311-frames/core.zst"
}

# PYTHON310: a python 3.10. Its lists of CFrames end without a null pointer.
python_holdings() {
    cp "$SRC/holdings.py" "$RUN/"
    rm -f "$RUN/truth.json"
    (echo 0x33 > /proc/self/coredump_filter; ulimit -c unlimited; cd "$RUN"
        exec env -i PATH=/usr/bin:/bin "$PYTHON310" -I -S holdings.py truth.json) &
    PID=$!
    until [ -s "$RUN/truth.json" ]; do sleep 0.2; done
    sleep 0.5
    kill -ABRT "$PID"; wait "$PID" 2> /dev/null || true
    mkdir -p "$OUT/python310-holdings"
    cp "$RUN/truth.json" "$OUT/python310-holdings/"
    zstd -q -19 --long=27 -f "$(core_file)" -o "$OUT/python310-holdings/core.zst"
}

case $WHAT in
dotnet11) dotnet11 ;;
dotnet-kernel) dotnet_kernel ;;
dotnet-gcore) dotnet_gcore ;;
dotnet-createdump) dotnet_createdump ;;
dotnet-pending) dotnet_pending ;;
dotnet-server) dotnet_server ;;
native-kernel) native_kernel ;;
native-guards) native_guards ;;
native-leaks) native_leaks ;;
two-libcs) two_libcs ;;
shapes) shapes ;;
fibers) fibers ;;
forked) forked ;;
waits) waits ;;
ends) ends ;;
musl-gcore) musl_gcore ;;
musl-leaks) musl_leaks ;;
musl-slots) musl_slots ;;
jemalloc-leaks) jemalloc_leaks ;;
tcmalloc-leaks) tcmalloc_leaks ;;
aarch64-qemu) aarch64_qemu ;;
resident) resident ;;
zoo) zoo ;;
go) go_program ;;
foreign) foreign ;;
java) java ;;
java-map) java_map ;;
python) python ;;
all) dotnet_kernel; dotnet_gcore; dotnet_createdump; dotnet_pending; dotnet_server; native_kernel; native_leaks; two_libcs; shapes; fibers; forked; waits; ends; musl_gcore; musl_leaks; musl_slots; jemalloc_leaks; tcmalloc_leaks; aarch64_qemu; resident; zoo; go_program; foreign ;;
*) echo "unknown: $WHAT" >&2; exit 2 ;;
esac
