"""Puts a secret in every place that a program of Python has, then waits to be dumped.

Standard input has them masked, a line each ("place hex"), up to a line "."; text() and the like undo the mask.
@text:docstring@ is a docstring.
"""
import array
import collections
import ctypes
import io
import json
import os
import pickle
import re
import struct
import sys
import threading
import time
import weakref

TOLD = {}


def text_bytes(place):
    masked = bytes.fromhex(TOLD[place])
    return bytes(b ^ (0x80 | (i * 37 + 11) & 0x7F) for i, b in enumerate(masked))


def text(place):
    return text_bytes(place).decode()


def number(place):
    return int.from_bytes(text_bytes(place), "little")


def real(place):
    return float(number(place))


six = accented = name = text
pin = digit = number

data = b""
while not data.endswith(b".\n"):
    data += os.read(0, 65536)
for line in data.decode().split("\n"):
    place, _, masked = line.partition(" ")
    if masked:
        TOLD[place] = masked


class Customer:
    label = text("class_attribute")

    def __init__(self):
        self.secret = text("attribute_value")
        self.weight = real("float_attribute")


class Slotted:
    __slots__ = ("a", "b", "__weakref__")


class Text(str):
    __slots__ = ("__weakref__",)


Pair = collections.namedtuple("Pair", "x y")
kept = {}


def constants():
    return ("@text:code_constant@", @number:code_constant_number@)


def formatted(x=text("default_argument")):
    value = text("f_string")
    return f"<{value}>"


def strings():
    kept["ascii"] = text("str_ascii")
    kept["latin"] = accented("str_latin")
    kept["ucs2"] = text("str_ucs2") + "\u0416"
    kept["ucs4"] = text("str_ucs4") + "\U0001f600"
    kept["joined"] = "-".join([text("str_joined"), "x"])
    kept["interned"] = sys.intern(text("str_interned"))
    kept["six"] = six("str_six")
    kept["big"] = "x" * 50000 + text("str_big_middle") + "y" * 50000
    kept["subclass"] = Text(text("str_subclass"))
    kept["weak"] = weakref.ref(kept["subclass"])
    kept["constants"] = constants()
    kept["formatted"] = formatted()


def numbers():
    kept["int"] = number("int_big")
    kept["digit"] = digit("int_of_one_digit")
    kept["decimal"] = str(number("int_as_text"))
    kept["float"] = real("float")
    kept["array q"] = array.array("q", [1, number("array_q")])
    kept["array d"] = array.array("d", [1.0, real("array_d")])
    kept["array i"] = array.array("i", [0, pin("array_i_pin")])
    kept["packed"] = struct.pack("<Q", number("struct_packed"))
    kept["c int"] = ctypes.c_int64(number("ctypes_int64"))
    kept["c pin"] = ctypes.c_int32(pin("ctypes_pin"))


def buffers():
    kept["bytes"] = text_bytes("bytes")
    kept["bytearray"] = bytearray(text_bytes("bytearray"))
    kept["memoryview"] = memoryview(bytearray(text_bytes("memoryview")))
    kept["array u"] = array.array("u", text("array_u"))
    kept["c buffer"] = ctypes.create_string_buffer(text_bytes("ctypes_buffer"), 64)
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    kept["c heap"] = libc.malloc(200)
    raw = text_bytes("ctypes_malloc")
    ctypes.memmove(kept["c heap"] + 50, raw, len(raw))
    kept["key"] = b"-----BEGIN KEY-----" + text_bytes("bytes_of_a_key")
    kept["StringIO"] = io.StringIO()
    kept["StringIO"].write(text("stringio"))
    kept["BytesIO"] = io.BytesIO()
    kept["BytesIO"].write(text_bytes("bytesio"))
    kept["file"] = open("written", "w", buffering=8192)
    os.unlink("written")
    kept["file"].write(text("file_write_buffer"))


def containers():
    kept["dict"] = {text("dict_key"): text("dict_value"), number("dict_key_number"): 1}
    kept["set"] = {text("set_item")}
    kept["list"] = [text("list_item"), number("list_number"), text("list_popped") + "z" * 400]
    kept["tuple"] = (text("tuple_item"), 1)
    kept["named"] = Pair(text("namedtuple"), 2)
    kept["deque"] = collections.deque([text("deque_item")])
    kept["object"] = Customer()
    kept["slots"] = Slotted()
    kept["slots"].a = text("slot_value")
    kept["slots"].b = number("slot_number")
    kept["pickle"] = pickle.dumps({"p": text("pickled")})
    kept["json"] = json.dumps({"t": text("json")})
    kept["pattern"] = re.compile(text("regex_pattern") + "[a-z]+")
    os.environ["CANARY_SET_LATER"] = text("environ_set")
    try:
        raise ValueError(text("exception_message"), {"k": text("exception_argument")})
    except ValueError as e:
        kept["exception"] = e


def generator():
    a, n = text("generator_local"), number("generator_number")
    yield
    yield a, n


class Never:
    def __await__(self):
        yield


async def coroutine():
    a = text("coroutine_local")
    await Never()
    return a


def closure(x):
    return lambda: x


def suspended():
    kept["generator"] = generator()
    next(kept["generator"])
    kept["coroutine"] = coroutine()
    kept["coroutine"].send(None)
    kept["closure"] = closure(text("closure"))


def dead():
    a = text("dead_frame_local") + "z" * 300
    return len([a] * 3)


ready = []
local = threading.local()


def second():
    held = text("second_thread_local")
    try:
        raise KeyError(text("caught_exception"))
    except KeyError as e:
        ready.append(1)
        time.sleep(1e6)
        print(held, e)


def freed():
    a = bytearray(900)
    raw = text_bytes("bytearray_freed")
    a[100 : 100 + len(raw)] = raw
    b = [text("str_freed") + "z" * 200]
    return len(a) + len(b)


def left_over():
    """Fills blocks of the sizes of frame objects, and frees them."""
    raw = text_bytes("frame_object_left_over")
    blocks = [raw * (size // len(raw)) for size in range(100, 480, 8) for _ in range(300)]
    return len(blocks)


def nested(depth):
    """Makes frame objects while their frames are elsewhere. The interpreter does not clear their space for them."""
    kept.setdefault("frames", []).append(sys._getframe())
    if depth == 0:
        stay()
    nested(depth - 1)


def stay():
    a, n = text("local_variable"), number("local_number")
    while not ready:
        time.sleep(0.01)
    os.write(1, b"READY %d\n" % os.getpid())
    time.sleep(1e6)
    print(a, n)


for plant in (strings, numbers, buffers, containers, suspended):
    plant()
local.held = text("thread_local_value")
threading.Thread(target=second, name=name("thread_name"), daemon=True).start()
kept["list"].pop()
dead()
hold = [bytes(1000) for _ in range(50)]
freed()
left_over()
nested(200)
