#!/usr/bin/env python3
"""Dump real programs by gcore and by the kernel, and compare what coremap says with
/proc/PID/smaps and with gdb.

usage: real-programs.py [--bin target/release/coremap] [--work DIR] [--keep] [PROGRAM]...

Not run by CI: it needs the programs (Debian's packages, named with each), gdb, and
kernel.core_pattern `core`. docs/real-programs.md has its table. Each program runs with
an empty environment. It tells, for each core:

  map     bytes that the core's base and smaps both have, and what only one of them has
  kinds   bytes that smaps knows to be of one kind and that we call something else:
          [stack], [heap] (where the C library is glibc), shared, files, no access
  stacks  threads whose stack lies in the one writable mapping that holds their stack
          pointer, or is one that a structure tells; no two of a byte
  frames  threads whose frames begin with those that gdb prints, as far as gdb goes
"""
import argparse, json, os, re, shutil, signal, subprocess, sys, tempfile, time

NODE = "const k=[];for(let i=0;i<300000;i++)k.push({i,s:'record '+i});const b=[];for(let i=0;i<60;i++)b.push(Buffer.alloc(1<<20,i));console.log('ready');setInterval(()=>k.length+b.length,1e6)"
LUA = "local t={} for i=1,400000 do t[i]={i,'record '..i} end io.write('ready\\n') io.flush() while true do local x=0 for i=1,1e9 do x=x+i end end"
RUBY = "k=(1..200_000).map{|i|\"record #{i}\"};f=Fiber.new{Fiber.yield 1;k.size};f.resume;4.times{Thread.new{sleep}};Thread.new{Fiber.new{sleep}.resume};sleep 1;puts 'ready';STDOUT.flush;sleep"
PERL = "my @k=map{{i=>$_,s=>\"record $_\"}}1..200000;$|=1;print\"ready\\n\";sleep 1e6"
PHP = "$k=[];for($i=0;$i<300000;$i++)$k[]=\"record $i\";echo \"ready\\n\";sleep(100000);"
SBCL = "(progn (defvar *k* (loop for i below 300000 collect (format nil \"record ~a\" i))) (sb-thread:make-thread (lambda () (sleep 1000000))) (format t \"ready~%\") (finish-output) (sleep 1000000))"
GUILE = "(define k (map (lambda (i) (number->string i)) (iota 200000))) (display \"ready\\n\") (force-output) (sleep 1000000)"
EMACS = "(progn (setq k (make-vector 200000 nil)) (dotimes (i 200000) (aset k i (format \"record %d\" i))) (message \"ready\") (sleep-for 1000000))"
ERLANG = "K=[integer_to_list(I)||I<-lists:seq(1,200000)],[spawn(fun()->timer:sleep(infinity) end)||_<-lists:seq(1,1000)],io:format(\"ready~n\"),receive x->K end."
OCAML = "let k = Array.init 300000 (fun i -> string_of_int i);; print_endline \"ready\";; let () = while true do Unix.sleep 1000 done;; ignore k"
HASKELL = """import Control.Concurrent
import qualified Data.Map as M
import System.IO
main = do { let { m = M.fromList [(i, show i) | i <- [1 .. 100000 :: Int]] }; print (M.size m); mapM_ (\\_ -> forkIO (threadDelay 1000000000)) [1 .. 100]; putStrLn "ready"; hFlush stdout; threadDelay 1000000000; print (M.lookup 5 m) }
"""
JAVA = """public class Hold { static java.util.List<Object> k = new java.util.ArrayList<>();
  public static void main(String[] a) throws Exception { for (int i = 0; i < 300000; i++) k.add("record " + i);
    for (int i = 0; i < 4; i++) new Thread(() -> { try { Thread.sleep(1000000); } catch (Exception e) { } }).start();
    System.out.println("ready"); Thread.sleep(1000000); } }
"""

# name: packages, command (a list; {d}: a folder of its own), seconds or the line to wait for, files to write, set-up
PROGRAMS = {
    "node": ("nodejs", ["node", "-e", NODE], "ready"),
    "lua": ("lua5.4", ["lua5.4", "-e", LUA], "ready"),
    "ruby": ("ruby", ["ruby", "-e", RUBY], "ready"),
    "perl": ("perl", ["perl", "-e", PERL], "ready"),
    "php": ("php-cli", ["php", "-r", PHP], "ready"),
    "sbcl": ("sbcl", ["sbcl", "--non-interactive", "--no-sysinit", "--no-userinit", "--eval", SBCL], "ready"),
    "guile": ("guile-3.0", ["guile", "-c", GUILE], "ready"),
    "emacs": ("emacs-nox", ["emacs", "--batch", "-Q", "--eval", EMACS], "ready"),
    "erlang": ("erlang-base", ["/usr/bin/erl", "-noshell", "-eval", ERLANG], "ready"),
    "redis": ("redis-server", ["redis-server", "--port", "0", "--unixsocket", "{d}/s", "--save", ""], 2),
    "memcached": ("memcached", ["memcached", "-u", "root", "-s", "{d}/s", "-m", "64"], 2),
    "mariadb": ("mariadb-server", ["mariadbd", "--no-defaults", "--datadir={d}/data", "--skip-networking", "--socket={d}/s", "--user=root"], 6),
    "nginx": ("nginx-light", ["nginx", "-p", "{d}", "-c", "{d}/nginx.conf", "-g", "daemon off; master_process off;"], 2),
    "haproxy": ("haproxy", ["haproxy", "-db", "-f", "{d}/haproxy.cfg"], 2),
    "java": ("openjdk-17-jdk-headless", ["java", "-Xmx128m", "{d}/Hold.java"], "ready"),
    "haskell": ("ghc", ["{d}/hold"], "ready"),
    "go": ("golang-go", ["{d}/goroutines"], "ready"),
    "cgo": ("golang-go", ["{d}/cgo"], "ready"),
}
HERE = os.path.dirname(os.path.abspath(__file__))
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "GOTRACEBACK": "crash"}
CGO = """package main
// #include <unistd.h>
// static void wait_in_c(void) { for (;;) pause(); }
import "C"
import ("fmt"; "time")
func main() { for i := 0; i < 4; i++ { go C.wait_in_c() }; time.Sleep(time.Second); fmt.Println("ready"); select { case <-time.After(time.Hour): } }
"""

def set_up(name, d):
    def write(f, text): open(os.path.join(d, f), "w").write(text)
    def go(*a, **k): subprocess.run(a, check=True, cwd=d, env={**ENV, "HOME": d, **k.get("env", {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if name == "mariadb": go("mariadb-install-db", "--no-defaults", f"--datadir={d}/data", "--auth-root-authentication-method=normal", "--user=root")
    if name == "nginx": os.makedirs(d + "/logs", exist_ok=True); write("nginx.conf", f"pid {d}/pid; error_log {d}/e; events {{}} http {{ access_log off; server {{ listen unix:{d}/s; }} }}\n")
    if name == "haproxy": write("haproxy.cfg", f"global\n nbthread 4\ndefaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nfrontend f\n bind unix@{d}/s\n")
    if name == "java": write("Hold.java", JAVA)
    if name == "haskell": write("hold.hs", HASKELL); go("ghc", "-O0", "-threaded", "-with-rtsopts=-N2", "hold.hs", "-o", "hold")
    if name == "go": shutil.copy(os.path.join(HERE, "../testdata/sources/goroutines.go"), d); go("go", "build", "-o", "goroutines", "goroutines.go", env={"CGO_ENABLED": "0"})
    if name == "cgo": write("cgo.go", CGO); go("go", "build", "-o", "cgo", "cgo.go", env={"CGO_ENABLED": "1"})

def wait_for(log, ready, p):
    if not isinstance(ready, str): time.sleep(ready); return
    for _ in range(600):
        if ready in open(log, errors="replace").read(): time.sleep(1); return
        if p.poll() is not None: break
        time.sleep(.1)
    raise RuntimeError("not ready: " + open(log, errors="replace").read()[-300:])

def smaps(pid):
    rows = []
    for line in open(f"/proc/{pid}/smaps"):
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+)\s*(.*)", line)
        if m: rows.append(dict(start=int(m[1], 16), end=int(m[2], 16), perms=m[3], offset=int(m[4], 16), inode=int(m[5]), name=m[6], rss=0, flags=""))
        elif line.startswith("Rss:"): rows[-1]["rss"] = int(line.split()[1]) << 10
        elif line.startswith("VmFlags:"): rows[-1]["flags"] = line[8:].strip()
    return rows

def dump(name, how, work):
    _, command, ready = PROGRAMS[name]
    d = tempfile.mkdtemp(prefix=f"{name}-{how}-", dir=work); set_up(name, d); log = d + "/log"
    command = [c.replace("{d}", d) for c in command]
    limit = lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_CORE, (-1, -1))
    p = subprocess.Popen(command, cwd=d, env=ENV, stdin=subprocess.DEVNULL, stdout=open(log, "w"), stderr=subprocess.STDOUT, preexec_fn=limit)
    try:
        wait_for(log, ready, p)
        pid = p.pid
        if name == "erlang":   # started by a script
            pid = int(subprocess.run(["pgrep", "-n", "beam"], capture_output=True, text=True).stdout)
        open(f"/proc/{pid}/coredump_filter", "w").write("0x33"); core = d + "/the.core"
        if how == "gcore":
            reserved = sum(r["end"] - r["start"] for r in smaps(pid))
            # gdb writes memory without access as zeros, and stumbles over terabytes of it.
            if reserved > 1 << 42: raise RuntimeError(f"not dumped: gdb would write {reserved >> 40} TiB of reserve")
            os.kill(pid, signal.SIGSTOP); rows = smaps(pid); os.kill(pid, signal.SIGCONT)
            subprocess.run(["gcore", "-o", d + "/g", str(pid)], check=True, capture_output=True); os.rename(f"{d}/g.{pid}", core)
        else:
            rows = smaps(pid); os.kill(pid, signal.SIGSEGV if name in ("sbcl", "java") and False else signal.SIGABRT if name not in ("java", "sbcl") else signal.SIGSYS)
            for _ in range(100):
                if not os.path.exists(f"/proc/{pid}") or p.poll() is not None: break
                time.sleep(.2)
            cores = [f for f in os.listdir(d) if re.fullmatch(r"core(\.\d+)?", f)] or (["data/" + f for f in os.listdir(d + "/data") if f.startswith("core")] if os.path.isdir(d + "/data") else [])
            os.rename(f"{d}/{cores[0]}", core)
        exe = None
        return d, core, rows
    finally:
        for victim in {p.pid, locals().get("pid", p.pid)}:
            try: os.kill(victim, signal.SIGKILL)
            except ProcessLookupError: pass
        p.wait()

def ask(binary, *args):
    p = subprocess.run([binary, *args, "--json"], capture_output=True, text=True)
    if p.returncode not in (0, 1, 4): raise RuntimeError(f"{args[0]}: status {p.returncode}: {p.stderr[-300:]}")
    return json.loads(p.stdout), p.returncode

def num(x): return int(x, 16) if isinstance(x, str) else x

def compare_map(regions, rows, how, glibc):
    """Bytes of one side only, and rows of smaps whose bytes have another kind: [(bytes, what, kind, confidence, where)]."""
    wrong, both, only_smaps, i = [], 0, 0, 0
    regions = [(num(r["start"]), num(r["end"]), r) for r in regions]
    for row in rows:
        covered = 0
        for a, b, r in regions:
            lo, hi = max(a, row["start"]), min(b, row["end"])
            if lo >= hi: continue
            covered += hi - lo; kind, name, perms = r["kind"], row["name"], row["perms"]; fits = True
            file = name.startswith("/") and not name.startswith(("/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "/anon_hugepage", "/[aio]"))
            if name == "[stack]": fits = kind in ("Stack", "StackGuard")
            elif name == "[heap]": fits = kind in ("Malloc", "Image", "Stack") or not glibc and kind == "AnonRW"
            elif name in ("[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]"): fits = kind == "Vdso"
            elif file: fits = kind in ("Image", "MappedFile", "Stack")
            elif name.startswith(("/memfd:", "/SYSV", "/dev/zero (del", "/dev/shm/", "anon_inode", "/[aio]")): fits = kind in ("SharedMemory", "DoubleMapped", "Image")
            elif perms.startswith("---"): fits = kind in ("NoAccess", "StackGuard", "GCHeapReserve", "Image") or how == "gcore" and kind == "AnonRO"
            elif "x" in perms: fits = kind in ("AnonRX", "AnonRWX", "Image", "Stack")
            elif "w" in perms: fits = kind in ("AnonRW", "Malloc", "Stack", "Image") or kind == "StackGuard" and False
            else: fits = kind in ("AnonRO", "Image", "NoAccess", "StackGuard")
            p = r["perms"]
            if p[3] != "?" and p[3] != perms[3]: fits = False
            if p[:3] != "???" and how == "kernel" and p[:3] != perms[:3]: fits = False
            if not fits: wrong.append((hi - lo, f"{perms} {name}", f"{kind} {p}", r["confidence"], hex(lo)))
        both += covered; only_smaps += row["end"] - row["start"] - covered
    base = sum(b - a for a, b, _ in regions)
    return both, only_smaps, base - both, wrong

def compare_stacks(stacks, rows):
    bad = []; ranges = []
    for s in stacks:
        tid = s.get("tid") or s.get("used_by")
        if s["low"] is None: bad.append((tid, "no stack: " + s["source"])); continue
        lo, hi = num(s["low"]), num(s["high"]); ranges.append((lo, hi, tid))
        inside = [r for r in rows if r["start"] < hi and lo < r["end"]]
        usable = [r for r in inside if "w" in r["perms"]]
        if not usable: bad.append((tid, f"in no writable mapping {lo:#x}-{hi:#x}"))
        if any(r["name"].startswith("/") and "w" not in r["perms"] for r in inside): bad.append((tid, f"over a file {lo:#x}-{hi:#x}"))
        if any("x" in r["perms"] and "w" not in r["perms"] for r in inside): bad.append((tid, f"over code {lo:#x}-{hi:#x}"))
        sp = s.get("sp")
        if sp and not any(r["start"] <= num(sp) < r["end"] for r in inside) and num(sp) >= lo: bad.append((tid, "SP elsewhere"))
        if s["confidence"] == "exact" and s["state"] == "thread" and sum(min(hi, r["end"]) - max(lo, r["start"]) for r in usable) < (hi - lo) // 2: bad.append((tid, "exact, and mostly not writable"))
    ranges.sort(key=lambda r: r[:2])
    for (a, b, t), (c, e, u) in zip(ranges, ranges[1:]):
        if c < b: bad.append((t, f"shares bytes with {u}"))
    return bad

def gdb_frames(exe, core):
    # pending breakpoints and debug files of no network
    p = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set backtrace past-main on", "-ex", "thread apply all bt 60", exe, core], capture_output=True, text=True, errors="replace", timeout=600)
    out = {}; tid = None
    for line in p.stdout.splitlines():
        if m := re.match(r"Thread \d+ \((?:Thread \S+ \()?LWP (\d+)", line): tid = int(m[1]); out[tid] = []
        elif (m := re.match(r"#(\d+) +(0x[0-9a-f]+)?", line)) and tid is not None: out[tid].append(int(m[2], 16) if m[2] else ("signal" if "<signal handler" in line else None))
    return out

def compare_frames(threads, gdb):
    """Threads whose frames are gdb's, as far as gdb goes. What gdb alone has is passed over where a frame that both
    have comes after it: with debug information it prints inlined functions as frames."""
    whole = total = guesses = 0; eg = ""
    for t in threads:
        ours = [num(f["ip"]) for f in t["frames"] if f.get("ip") and f["kind"] != "frame"]; known = set(ours)
        all_theirs = gdb.get(t["tid"], []); theirs = [f for f in all_theirs if isinstance(f, int) and f != 0]
        shared = [x for x in theirs if x in known]; last = theirs.index(shared[-1]) if shared else -1
        # Everything of ours up to the last shared frame is gdb's too, and gdb has nothing behind it. Of a signal gdb
        # prints neither the trampoline's address nor, where that begins a line, that of what was interrupted.
        i = ours.index(shared[-1]) + 1 if shared else 0; alone = [x for x in ours[1:i] if x not in shared]
        same = len(alone) <= 2 * all_theirs.count("signal") and last == len(theirs) - 1
        total += 1; whole += same; guesses += any(f["trust"] in ("scan", "frame pointer") for f in t["frames"])
        if not same and not eg: eg = f"tid {t['tid']}: gdb {[hex(x) for x in theirs[:9]]}, ours {[hex(x) for x in ours[:9]]}"
    return whole, total, guesses, eg

def main():
    ap = argparse.ArgumentParser(); ap.add_argument("--bin", default="target/release/coremap"); ap.add_argument("--work", default="/tmp/real-programs"); ap.add_argument("--keep", action="store_true"); ap.add_argument("--again", action="store_true", help="use the cores that --keep left"); ap.add_argument("program", nargs="*")
    a = ap.parse_args(); os.makedirs(a.work, exist_ok=True); binary = os.path.abspath(a.bin)
    print("| program | dump | core | map: in both, only smaps, only ours | other kinds | stacks | frames |\n|---|---|---|---|---|---|---|")
    for name in a.program or PROGRAMS:
        for how in ("gcore", "kernel"):
            try:
                if a.again:
                    d = next(os.path.join(a.work, f) for f in sorted(os.listdir(a.work)) if f.startswith(f"{name}-{how}-")); core = d + "/the.core"; rows = json.load(open(d + "/smaps.json"))
                else:
                    d, core, rows = dump(name, how, a.work)
                    if a.keep: json.dump(rows, open(d + "/smaps.json", "w"))
                info, _ = ask(binary, "info", core); glibc = any(f["what"] == "libc" and "musl" not in f["value"] for f in info["process"]["os"])
                regions, _ = ask(binary, "regions", core); stacks, _ = ask(binary, "stacks", core); check, status = ask(binary, "check", core); threads, _ = ask(binary, "threads", "--symbols", "/", core)
                both, only_smaps, only_ours, wrong = compare_map(regions["regions"], rows, how, glibc)
                bad = compare_stacks(stacks["stacks"], rows); missing = {t["tid"] for t in threads["threads"]} - {s["tid"] for s in stacks["stacks"]}
                exe = info["process"]["executable"] or "/bin/true"
                whole, total, guesses, eg = compare_frames(threads["threads"], gdb_frames(exe if os.path.exists(exe) else "/bin/true", core))
                mib = lambda n: f"{n / (1 << 20):.1f}"
                print(f"| {name} | {how} | {mib(os.path.getsize(core))} MiB | {mib(both)}, {mib(only_smaps)}, {mib(only_ours)} MiB | {mib(sum(w[0] for w in wrong))} MiB | {len(stacks['stacks']) - len({b[0] for b in bad})} of {len(stacks['stacks'])} | {whole} of {total} as gdb's, {guesses} with guesses |", flush=True)
                for w in sorted(wrong, reverse=True)[:6]: print(f"    {name} {how}: {w[0]:,} bytes at {w[4]}: smaps {w[1]}, ours {w[2]} ({w[3]})", file=sys.stderr)
                for b in bad[:6]: print(f"    {name} {how}: stack of {b[0]}: {b[1]}", file=sys.stderr)
                if missing: print(f"    {name} {how}: threads without a row: {sorted(missing)}", file=sys.stderr)
                if check["conflicts"] or status: print(f"    {name} {how}: check: status {status}, {check['conflicts'][:3]} {check['warnings'][:2]}", file=sys.stderr)
                if eg: print(f"    {name} {how}: frames: {eg}", file=sys.stderr)
                for w in stacks["warnings"]: print(f"    {name} {how}: stacks warns: {w['message'][:200]}", file=sys.stderr)
                if not a.keep: shutil.rmtree(d)
            except (RuntimeError, OSError, subprocess.SubprocessError, StopIteration, IndexError, ValueError) as e:
                print(f"    {name} {how}: {type(e).__name__} {e}", file=sys.stderr, flush=True)
main()
