#!/usr/bin/env python3
"""Makes the core of a Python process with its ground truth beside it. Needs root, gdb, and
kernel.core_pattern `core`.

usage: make.py NAME --into DIR --dump gcore|kernel [--python PATH] [--chroot DIR] [--env K=V]...
               [--signal ABRT] [--py-spy PATH] [--py-bt FILE] [--wait SECONDS]
               [--child] [--files] -- [arguments of lab.py, or with --command a whole command]

DIR/NAME/ gets `core`, what lab.py writes (see there), `maps` and `smaps` of the process before the
dump, what py-spy and gdb's py-bt print of it (with their times in how.json), and files/ with the
ELF files it has mapped. The process runs with an empty environment but for --env.

With --command, {d} is the folder it runs in, with lab.py and served.py in it, and --child dumps its
first child instead of itself.

With --chroot the interpreter is that of a system unpacked there, for instance by
`mmdebstrap --variant=minbase --include=python3 trixie DIR`; /proc is not needed in it.
"""
import argparse, glob, json, os, resource, shutil, signal, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, log, **more):
    """Runs a command, writes what it prints to a file and gives its wall time."""
    before = time.monotonic()
    with open(log, "wb") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, **more).returncode
    return {"seconds": round(time.monotonic() - before, 3), "exit": code}


def copy_files(pid, root, target):
    os.makedirs(target)
    paths = {line.split(None, 5)[5].strip() for line in open("/proc/%d/maps" % pid) if len(line.split(None, 5)) > 5}
    for path in sorted(paths):
        # a chrooted process is shown with the paths of the system outside
        real = path if path.startswith(root + "/") else root + path
        if path.startswith("/") and os.path.isfile(real) and open(real, "rb").read(4) == b"\x7fELF":
            shutil.copy(real, target)


def cut(arguments):
    """What stands before `--`, that itself, and what stands after it."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at:at + 1], arguments[at + 1:]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("name")
    parser.add_argument("--into", required=True)
    parser.add_argument("--dump", choices=("gcore", "kernel"), required=True)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--chroot")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--signal", default="ABRT")
    parser.add_argument("--py-spy")
    parser.add_argument("--py-bt")
    parser.add_argument("--wait", type=float, help="seconds to wait instead of for READY")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--command", action="store_true")
    mine, _, rest = [list(part) for part in cut(sys.argv[1:])]
    a = parser.parse_args(mine)
    a.rest = rest

    target = os.path.join(os.path.abspath(a.into), a.name)
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    root = os.path.abspath(a.chroot) if a.chroot else ""
    place = "/lab-" + a.name if root else target
    if root:
        os.makedirs(root + place, exist_ok=True)
    for program in ("lab.py", "served.py") if a.command else ("lab.py",):
        shutil.copy(os.path.join(HERE, program), root + place)
    command = [part.replace("{d}", place) for part in a.rest]
    if not a.command:
        command = [a.python, place + "/lab.py", "--out", place] + a.rest

    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if root:
            os.chroot(root)
        os.chdir(place)
        os.setsid()
        # inherited by exec: for the process that crashes at once
        open("/proc/self/coredump_filter", "w").write("0x33") if os.path.exists("/proc/self/coredump_filter") else None

    environment = dict(pair.replace("{d}", place).split("=", 1) for pair in a.env)
    err = open(os.path.join(target, "stderr.txt"), "wb")
    process = subprocess.Popen(command, env=environment, preexec_fn=prepare, stdout=subprocess.PIPE, stderr=err)
    how = {"name": a.name, "command": command, "dump": a.dump, "env": environment, "pid": process.pid}
    crashes = "--crash" in a.rest
    if a.wait:
        time.sleep(a.wait)
    elif not any(line == b"READY\n" for line in process.stdout):
        sys.exit("no READY: see %s/stderr.txt" % target)
    pid = process.pid
    if a.child:
        pid = int(open("/proc/%d/task/%d/children" % (pid, pid)).read().split()[0])
        how["pid"] = pid
    if crashes:
        process.wait()
    else:
        time.sleep(0.5)
        open("/proc/%d/coredump_filter" % pid, "w").write("0x33")
        for name in ("maps", "smaps", "status"):
            open(os.path.join(target, name), "wb").write(open("/proc/%d/%s" % (pid, name), "rb").read())
        if a.files:
            copy_files(pid, root, os.path.join(target, "files"))
        if a.py_spy:
            how["py-spy"] = run([a.py_spy, "dump", "--pid", str(pid)], target + "/pyspy.txt")
            how["py-spy --native"] = run([a.py_spy, "dump", "--native", "--pid", str(pid)], target + "/pyspy_native.txt")
        sysroot = ["-iex", "set sysroot " + root,
                   "-iex", "set debug-file-directory %s/usr/lib/debug" % root] if root else []
        gdb = ["gdb", "-nx", "--batch", "-iex", "set auto-load safe-path /", "-iex", "set debuginfod enabled off", *sysroot,
               os.readlink("/proc/%d/exe" % pid)]
        if a.py_bt:
            how["gdb py-bt"] = run([*gdb, "-p", str(pid), "-ex", "source " + a.py_bt, "-ex", "thread apply all py-bt"],
                                   target + "/pybt.txt")
        if a.dump == "gcore":
            how["gcore"] = run([*gdb, "-p", str(pid), "-ex", "gcore %s/core" % target], target + "/gcore.log")
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(pid, getattr(signal, "SIG" + a.signal))
            while a.child and os.path.exists("/proc/%d/maps" % pid) and open("/proc/%d/maps" % pid).read(1):
                time.sleep(0.1)
        if a.child:
            process.terminate()
        process.wait()
    how["exit"] = process.returncode
    for path in glob.glob(root + place + "/*") if root else []:
        shutil.move(path, target)
    if root:
        shutil.rmtree(root + place)
    core = target + "/core"
    for name in ("lab.py", "served.py", "__pycache__"):
        path = os.path.join(target, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)
    subprocess.run(["fallocate", "-d", core])
    how["core_bytes"] = os.stat(core).st_size
    how["core_on_disk"] = os.stat(core).st_blocks * 512
    json.dump(how, open(target + "/how.json", "w"), indent=1, ensure_ascii=False)
    print(a.name, how["core_bytes"] >> 20, "MiB,", how["core_on_disk"] >> 20, "on disk,",
          {k: v for k, v in how.items() if isinstance(v, dict) and "seconds" in v})


if __name__ == "__main__":
    main()
