"""An ELF core as far as the proofs need it: what lies at an address, its notes, and where byte strings are in it."""
import atexit
import collections
import functools
import mmap
import os
import shutil
import struct
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PT_LOAD, PT_NOTE = 1, 4
PF_W = 2
NT_FILE = 0x46494C45
NT_AUXV, AT_RANDOM, AT_EXECFN = 6, 25, 31

Segment = collections.namedtuple("Segment", "start offset size mapped flags")


class Core:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        headers, sections = struct.unpack_from("<QQ", self.bytes, 32)
        (count,) = struct.unpack_from("<H", self.bytes, 56)
        if count == 0xFFFF:  # more than fit: the first section header tells
            (count,) = struct.unpack_from("<I", self.bytes, sections + 44)
        self.loads, self.note_runs = [], []
        for i in range(count):
            row = struct.unpack_from("<IIQQQQQQ", self.bytes, headers + 56 * i)
            kind, flags, offset, start, _, size, mapped, _ = row
            if kind == PT_LOAD:
                self.loads.append(Segment(start, offset, size, mapped, flags))
            elif kind == PT_NOTE:
                self.note_runs.append((offset, size))

    def segment_at(self, offset):
        return next((s for s in self.loads if s.offset <= offset < s.offset + s.size), None)

    def offset(self, address):
        """Where in the file an address is."""
        for s in self.loads:
            if s.start <= address < s.start + s.size:
                return s.offset + address - s.start
        return None

    def read(self, address, count):
        at = self.offset(address)
        return None if at is None else self.bytes[at : at + count]

    def place(self, offset):
        """The address of a place in the file, or what else it is, in words."""
        s = self.segment_at(offset)
        if s:
            return f"0x{s.start + offset - s.offset:x}"
        return next((f"note {owner} {kind}" for kind, owner, at, n in self.notes() if at <= offset < at + n), "headers")

    def notes(self):
        for run, size in self.note_runs:
            at = run
            while at + 12 <= run + size:
                names, length, kind = struct.unpack_from("<III", self.bytes, at)
                data = at + 12 + (names + 3 & ~3)
                yield kind, self.bytes[at + 12 : at + 12 + names].rstrip(b"\0").decode("latin-1"), data, length
                at = data + (length + 3 & ~3)

    def auxiliary(self, wanted):
        """The value of that type in the auxiliary vector."""
        for kind, _, data, length in self.notes():
            for at in range(data, data + length - 15, 16) if kind == NT_AUXV else ():
                tag, value = struct.unpack_from("<QQ", self.bytes, at)
                if tag == wanted:
                    return value
        return None

    def at_random(self):
        """The 16 bytes that seed the stack's guard and that of pointers."""
        at = self.auxiliary(AT_RANDOM)
        return None if at is None else self.read(at, 16)

    def started_as(self):
        """The path that the program was started by."""
        at = self.auxiliary(AT_EXECFN)
        return at and (self.read(at, 4096) or b"").split(b"\0")[0].decode("latin-1")

    @functools.cached_property
    def files(self):
        """Ranges of mapped files: gcore leaves out what it could read again."""
        out = []
        for kind, _, data, length in self.notes():
            if kind == NT_FILE and length >= 16:
                (count,) = struct.unpack_from("<Q", self.bytes, data)
                rows = min(count, (length - 16) // 24)
                out += [struct.unpack_from("<QQ", self.bytes, data + 16 + 24 * i) for i in range(rows)]
        return out

    def leads_somewhere(self, word):
        in_file = any(start <= word < end for start, end in self.files)
        return in_file or any(s.start <= word < s.start + s.mapped for s in self.loads)


@functools.cache
def scanner():
    """The program of scan.c, made when it is first needed."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["cc", "-O2", "-o", folder + "/scan", HERE + "/scan.c"], check=True)
    return folder + "/scan"


def find(path, strings):
    """{key: [offset, …]} of strings [(key, bytes), …] in a file."""
    lines = "".join(f"{i} {raw.hex()}\n" for i, (_, raw) in enumerate(strings))
    done = subprocess.run([scanner(), path], input=lines, capture_output=True, text=True, check=True)
    found = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        i, offset = line.split()
        found[strings[int(i)][0]].append(int(offset))
    return found
