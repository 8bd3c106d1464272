#!/usr/bin/env python3
"""Run the programs with secrets made at random, and dump them.

usage: make.py --into DIR [--dotnet DIR] [CASE…]      make.py [--dotnet DIR] --list

Each case becomes DIR/CASE/core and DIR/CASE/truth.json, which has the secrets and where the core has them. What this machine can't make
is skipped, and said. DIR must be where nobody else looks: the cores have the secrets.
"""
import argparse
import ctypes
import glob
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

import core as elf
from secret import Secret, in_source, letters

PROGRAMS = os.path.join(elf.HERE, "programs")


class Skip(Exception):
    """Why a case can't be made here."""


# ---- programs


class Program:
    """A program of a case: what it is told, and how it is started."""

    running = []

    def __init__(self, folder, source):
        self.folder = folder
        with open(os.path.join(PROGRAMS, source)) as file:
            self.secrets, text = in_source(file.read())
        self.source = os.path.join(folder, source)
        with open(self.source, "w") as file:
            file.write(text)
        variable = self.add("environment_name", "name")
        # Nothing of the environment that this runs in.
        self.env = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "CANARY_" + variable: self.add("environment_value"),
            "DB_PASSWORD": self.add("environment_password"),
        }
        self.argv = []
        self.process = None
        self.told_addresses = {}

    def add(self, place, kind="text"):
        """A secret that the program doesn't get by standard input."""
        secret = Secret.new(place, kind, sent=False)
        self.secrets.append(secret)
        return secret.value

    def build(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        os.unlink(self.source)

    def start(self):
        argv = [*self.argv, self.add("argument"), "-" * 30, "--password=" + self.add("argument_option")]
        unlimited = lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.process = subprocess.Popen(
            argv,
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(self.folder + "/stderr", "w"),
            preexec_fn=unlimited,
            bufsize=0,
        )
        Program.running.append(self)
        lines = "".join(s.line() for s in self.secrets if s.sent)
        self.process.stdin.write((lines + ".\n").encode())
        said, end = b"", time.time() + 60
        while b"READY" not in said and time.time() < end and self.process.poll() is None:
            if select.select([self.process.stdout], [], [], 1)[0]:
                said += os.read(self.process.stdout.fileno(), 65536)
        if b"READY" not in said:
            self.process.kill()
            with open(self.folder + "/stderr") as file:
                raise SystemExit(f"{argv[0]} did not get ready: {said.decode()[-500:]}{file.read()[-2000:]}")
        for line in said.decode().splitlines():
            if line.startswith("ADDR "):
                _, place, address = line.split()
                self.told_addresses[place] = int(address, 16)
        time.sleep(0.3)  # until all threads are where they stay

    # ---- dumps

    def dump_by_kernel(self, filter, number=None):
        """Die of SIGABRT, which `number` came with; coredump_filter says which mappings are dumped."""
        with open(f"/proc/{self.process.pid}/coredump_filter", "w") as file:
            file.write(hex(filter))
        libc = ctypes.CDLL(None, use_errno=True)
        # SIGXCPU: Java doesn't handle it.
        sent = signal.SIGXCPU if number is None else signal.SIGABRT
        if libc.sigqueue(self.process.pid, int(sent), ctypes.c_void_p(number or 0)):
            raise OSError(ctypes.get_errno(), "sigqueue")
        self.process.wait(timeout=60)
        written = glob.glob(self.folder + "/core*")
        if not written:
            raise Skip("the kernel wrote no core, though core_pattern is `core`")
        os.rename(written[0], self.folder + "/core")

    def dump_by_gdb(self):
        core = self.folder + "/core"
        done = subprocess.run(["gcore", "-o", core, str(self.process.pid)], capture_output=True, text=True, timeout=300)
        if not os.path.exists(f"{core}.{self.process.pid}"):
            raise Skip("gcore could not attach: " + (done.stderr.strip().splitlines() or ["no word why"])[-1])
        os.rename(f"{core}.{self.process.pid}", core)

    def dump_by_createdump(self, createdump, kind):
        command = [createdump, "-f", self.folder + "/core", kind, str(self.process.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Skip("createdump: " + (done.stdout + done.stderr).strip())

    def end(self):
        self.process.kill()
        self.process.wait()

    # ---- truth

    def truth(self):
        """Find the secrets in the core."""
        core = elf.Core(self.folder + "/core")
        seed = core.at_random()
        if seed:
            guard = int.from_bytes(seed[:8], "little") & ~0xFF
            self.secrets += [
                Secret("at_random", "bytes16", seed),
                Secret("stack_guard", "number", guard),
                Secret("pointer_guard", "bytes16", seed[8:]),
            ]
        strings = [((s.place, form), raw) for s in self.secrets if s.forms() for form, raw in s.plain()]
        found = elf.find(core.path, strings)
        for secret in self.secrets:
            offsets = [o for form, _ in secret.plain() for o in found.get((secret.place, form), [])]
            secret.addresses = sorted({core.place(o) for o in offsets})[:50]
            told = self.told_addresses.get(secret.place)
            if told is not None and core.read(told, len(secret.raw())) == secret.raw():
                secret.addresses.append(f"0x{told:x}")
        with open(self.folder + "/truth.json", "w") as file:
            json.dump([s.to_json() for s in self.secrets], file, indent=1)
        os.chmod(self.folder + "/core", 0o600)
        missing = [s.place for s in self.secrets if not s.addresses and not s.stays()]
        return f"{len(self.secrets)} secrets" + (f"; the core lacks {' '.join(missing)}" if missing else "")


# ---- cases


def need(*commands):
    for command in commands:
        if not shutil.which(command):
            raise Skip(f"there is no {command}")


def need_kernel():
    with open("/proc/sys/kernel/core_pattern") as file:
        pattern = file.read().strip()
    if pattern != "core":
        raise Skip(f"kernel.core_pattern is `{pattern}`, not `core`")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        raise Skip("the size of cores has a hard limit here (ulimit -Hc)")


def c_program(folder):
    need("cc")
    program = Program(folder, "canary.c")
    program.build("cc", "-O1", "-fno-stack-protector", "-o", "canary", "canary.c", "-lpthread")
    program.argv = [folder + "/canary"]
    return program


def c_by_gdb(folder):
    need("gcore")
    program = c_program(folder)
    program.start()
    program.dump_by_gdb()
    return program


def c_by_kernel(folder, filter=0x3F):
    need_kernel()
    program = c_program(folder)
    program.start()
    program.dump_by_kernel(filter, program.add("signal_value", "number"))
    return program


def python_program(folder, allocator=None):
    program = Program(folder, "canary.py")
    # Without the launchers that stand for it in some places.
    program.argv = [os.path.realpath(sys.executable), program.source]
    program.env.update({"PYTHONDONTWRITEBYTECODE": "1", "MALLOC_ARENA_MAX": "1"})
    if allocator:
        program.env["PYTHONMALLOC"] = allocator
    program.start()
    return program


def python_by_gdb(folder):
    need("gcore")
    program = python_program(folder)
    program.dump_by_gdb()
    return program


def python_by_kernel(folder, allocator=None):
    need_kernel()
    program = python_program(folder, allocator)
    program.dump_by_kernel(0x3F)
    return program


def java_by_kernel(folder, collector):
    # gcore writes all that Java reserves, and its 100 MB of modules.
    need_kernel()
    need("java", "javac")
    program = Program(folder, "Canary.java")
    program.build("javac", "-J-XX:TieredStopAtLevel=1", "-nowarn", "Canary.java")
    sizes = "-Xmx48m -Xss512k -XX:ReservedCodeCacheSize=16m -XX:MaxMetaspaceSize=32m -XX:CompressedClassSpaceSize=8m"
    option = "-Dcanary.option=" + program.add("option_of_the_vm")
    program.argv = [shutil.which("java"), *sizes.split(), f"-XX:+Use{collector}GC", option, "-cp", folder, "Canary"]
    program.env["MALLOC_ARENA_MAX"] = "1"
    program.start()
    program.dump_by_kernel(0x3F)
    return program


# What the program and its libraries are compiled against.
ASSEMBLIES = """System.Private.CoreLib System.Runtime System.Collections System.Collections.Concurrent System.Threading
System.Threading.Thread System.Threading.Timer System.Threading.Tasks System.Runtime.Numerics System.Private.Uri System.Memory
System.Console System.Runtime.Extensions System.Runtime.InteropServices System.IO.FileSystem System.Text.Encoding.Extensions
System.Security.SecureString"""
DOTNET = None


def dotnet_program(folder):
    need("mcs")
    runtimes = glob.glob(os.path.join(DOTNET, "shared/Microsoft.NETCore.App/3.1.*"))
    if not runtimes:
        raise Skip(f"there is no .NET 3.1 in {DOTNET}")
    runtime = runtimes[0]
    program = Program(folder, "Canary.cs")
    extra = Program(folder, "Extra.cs")
    program.secrets += [s for s in extra.secrets if s.place == "literal_of_loaded_bytes"]
    with open(os.path.join(folder, "resource.txt"), "w") as file:
        file.write(program.add("manifest_resource"))
    paths = [f"{runtime}/{name}.dll" for name in ASSEMBLIES.split()]
    options = ["-nostdlib", "-noconfig", "-langversion:7", "-optimize+", "-unsafe", "-nowarn:0414,0169,0649,0219"]
    compiler = ["mcs", *options, *(f"-r:{path}" for path in paths if os.path.exists(path))]
    program.build(*compiler, "-resource:resource.txt", "-out:Canary.dll", "Canary.cs")
    extra.build(*compiler, "-target:library", "-out:Extra.dll", "Extra.cs")
    os.unlink(os.path.join(folder, "resource.txt"))
    settings = {"System.Globalization.Invariant": True, "Canary.Setting": program.add("setting_of_the_runtime")}
    framework = {"name": "Microsoft.NETCore.App", "version": os.path.basename(runtime)}
    with open(os.path.join(folder, "Canary.runtimeconfig.json"), "w") as file:
        json.dump({"runtimeOptions": {"framework": framework, "configProperties": settings}}, file)
    program.argv = [os.path.join(DOTNET, "dotnet"), folder + "/Canary.dll"]
    program.env.update({"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "MALLOC_ARENA_MAX": "2", "HOME": folder})
    os.chmod(program.argv[0], 0o755)
    program.start()
    return program, runtime


def dotnet_by_createdump(folder):
    program, runtime = dotnet_program(folder)
    os.chmod(runtime + "/createdump", 0o755)
    program.dump_by_createdump(runtime + "/createdump", "-u")
    return program


def dotnet_by_kernel(folder):
    need_kernel()
    program, _ = dotnet_program(folder)
    program.dump_by_kernel(0x3F)
    return program


DOTNET_CASES = {"dotnet-createdump": dotnet_by_createdump, "dotnet-kernel": dotnet_by_kernel}
CASES = {
    "c-gcore": c_by_gdb,
    "c-kernel": c_by_kernel,
    "c-kernel-33": lambda folder: c_by_kernel(folder, 0x33),  # what systems dump unless told otherwise
    "python-gcore": python_by_gdb,
    "python-kernel": python_by_kernel,
    "python-malloc-kernel": lambda folder: python_by_kernel(folder, "malloc"),
    "java-serial-kernel": lambda folder: java_by_kernel(folder, "Serial"),
    "java-g1-kernel": lambda folder: java_by_kernel(folder, "G1"),
}


def make(case, into):
    """Make one case; False if it is skipped."""
    folder = os.path.join(os.path.abspath(into), case)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    try:
        print(f"{case}: {CASES[case](folder).truth()}", flush=True)
        return True
    except Skip as why:
        print(f"skipped: {case}; {why}", flush=True)
        shutil.rmtree(folder)
        return False
    finally:
        while Program.running:
            Program.running.pop().end()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--into")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--dotnet", metavar="DIR")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if options.dotnet:
        global DOTNET
        DOTNET = os.path.abspath(options.dotnet)
        CASES.update(DOTNET_CASES)
    if options.list:
        print("\n".join(CASES))
    else:
        for case in options.cases or CASES:
            make(case, options.into)


if __name__ == "__main__":
    main()
