"""Secrets that programs are told to keep, and the forms in which each could lie in a file.

A secret has a place (where the program puts it), a kind (what is made at random for it) and a value: a text, a number
of 4 or 8 bytes, or bytes. Programs name places in their sources; `in_source` finds them there.
"""
import base64
import dataclasses
import random
import re
import string
import struct

RANDOM = random.SystemRandom()
LETTERS = string.ascii_letters + string.digits


def letters(count):
    """A text that begins as no name does."""
    return RANDOM.choice("QXZqxz") + "".join(RANDOM.choice(LETTERS) for _ in range(count - 1))


def some_bytes(count, below=256):
    return bytes(RANDOM.randrange(1, below) for _ in range(count))


# Numbers of 4 bytes are odd in a way that addresses seldom are, so that no address has one by chance.
KINDS = {
    "text": lambda: letters(RANDOM.randint(16, 24)),
    "accented": lambda: letters(9) + "\u00e9" + letters(9),  # one byte each in Latin-1, not in UTF-8
    "text16": lambda: letters(16),  # as long as a vector register
    "six": lambda: letters(6),  # fits in a word, with zeros as an address has them
    "name": lambda: letters(12),  # stays: a name of a thread or of a variable of the environment
    # A word whose letters are an address of memory that the C program maps where they lead.
    "leads": lambda: RANDOM.choice(string.ascii_letters) + RANDOM.choice("ABCDEFGHIJKLMNOabcdefghijklmno") + "pmjU",
    "leads16": lambda: RANDOM.choice(string.ascii_letters) + "wk",  # the same for three letters in UTF-16
    "number": lambda: RANDOM.randrange(1 << 57, 1 << 62) | 1,
    "real": lambda: RANDOM.randrange(1 << 52, 1 << 53) | 1,  # a double has all its digits
    "millis": lambda: RANDOM.randrange(1 << 50, 1 << 52) | 1,
    "ticks": lambda: 620_000_000_000_000_000 + RANDOM.randrange(10**16),  # of a date of .NET
    "pin": lambda: RANDOM.randrange(1 << 28, 1 << 31) | 5,
    "digit": lambda: RANDOM.randrange(1 << 28, 1 << 30) | 5,  # one digit of an integer of Python
    "small": lambda: RANDOM.randrange(300, 4000) | 1,  # looked for at its own address alone
    "bytes16": lambda: some_bytes(16),
    "positive16": lambda: some_bytes(16, 128),
}
SHORT = {"pin": 4, "digit": 4, "small": 4}
STAYS = {"name"}
# Three letters, and numbers below 4000, are everywhere: these are looked for where the program says that it put them.
AT_ADDRESS = {"small", "leads16"}


@dataclasses.dataclass
class Secret:
    place: str
    kind: str
    value: object
    addresses: list = dataclasses.field(default_factory=list)  # where it lies in the core
    sent: bool = True  # by standard input, not by the source, the command line or the environment

    @staticmethod
    def new(place, kind, sent=True):
        return Secret(place, kind, KINDS[kind](), [], sent)

    def stays(self):
        return self.kind in STAYS

    def width(self):
        return SHORT.get(self.kind, 8)

    def raw(self):
        """Its bytes, as a program gets them."""
        if isinstance(self.value, str):
            return self.value.encode("utf-16-le" if self.kind == "leads16" else "utf-8")
        return self.value if isinstance(self.value, bytes) else self.value.to_bytes(self.width(), "little")

    def line(self):
        """What the program is told: masked, so that no copy in its input is the secret itself."""
        raw = self.value.encode() if isinstance(self.value, str) else self.raw()
        return f"{self.place} {bytes(b ^ mask(i) for i, b in enumerate(raw)).hex()}\n"

    def to_json(self):
        value = {"bytes": self.value.hex()} if isinstance(self.value, bytes) else self.value
        return dict(dataclasses.asdict(self), value=value)

    @staticmethod
    def from_json(row):
        value = row["value"]
        return Secret(**dict(row, value=bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value))

    def plain(self):
        """[(form, bytes)]: as programs keep it while they work with it."""
        if isinstance(self.value, bytes):
            return [("bytes", self.value)]
        if isinstance(self.value, str):
            forms = [(e, self.value.encode(e)) for e in ("utf-8", "latin-1", "utf-16-le", "utf-32-le")]
            return [(form, raw) for i, (form, raw) in enumerate(forms) if raw not in [r for _, r in forms[:i]]]
        forms = [("little-endian", self.raw())]
        if self.width() == 8:
            high, low = self.value >> 32, self.value & 0xFFFFFFFF
            forms += [
                ("big-endian", self.raw()[::-1]),
                ("double", struct.pack("<d", self.value)),
                ("decimal", str(self.value).encode()),
                ("decimal utf-16", str(self.value).encode("utf-16-le")),
                ("digits of Python", digits_of_python(self.value)),
                ("halves swapped", struct.pack("<II", high, low)),  # as BigInteger of Java has them
            ]
        return forms

    def all_forms(self):
        """[(form, bytes)]: all that it is looked for as; as many for each secret of a kind, and in the same order."""
        if isinstance(self.value, str):
            return self.plain() + text_forms(self.value)
        if isinstance(self.value, int):
            return self.plain() + number_forms(self.value, self.width())
        return byte_forms(self.value) + self.plain()

    def forms(self):
        """The same, each once, if it can be looked for in a whole file."""
        distinct = {} if self.kind in AT_ADDRESS else {raw: form for form, raw in reversed(self.all_forms()) if len(raw) >= 4}
        return [(form, raw) for raw, form in distinct.items()]

    def another(self):
        """A different secret of the same kind and length, with zeros where this has some."""
        while True:
            other = dataclasses.replace(self, value=another_value(self.value, self.width()))
            same_lengths = [len(raw) for _, raw in self.all_forms()] == [len(raw) for _, raw in other.all_forms()]
            if other.value != self.value and same_lengths:
                return other


def another_value(value, width):
    if isinstance(value, str):
        return "".join(RANDOM.choice(LETTERS.replace(c, "")) if c in LETTERS else c for c in value)
    if isinstance(value, bytes):
        return bytes(RANDOM.randrange(1, 256) if b else 0 for b in value)
    raw = value.to_bytes(width, "little")
    changed = [RANDOM.randrange(1, 256) if b else 0 for b in raw]
    # As long in bits, so that it has as many digits for most.
    last = max(i for i, b in enumerate(raw) if b)
    changed[last] = RANDOM.randrange(1 << raw[last].bit_length() - 1, 1 << raw[last].bit_length())
    changed[0] |= raw[0] & 1
    return int.from_bytes(changed, "little")


def mask(i):
    """What the byte `i` of a secret is changed by on its way to the program."""
    return 0x80 | (i * 37 + 11) & 0x7F


def byte_forms(raw):
    """Bytes, as others write them down: hex, base64 wherever in a longer text they began, and backwards."""
    found = [("reversed", raw[::-1])]
    texts = [("hex", raw.hex()), ("HEX", raw.hex().upper())]
    for phase in range(3):
        # Characters that have bits of a neighbour are not the secret's own.
        first, end = -(-phase * 8 // 6), (phase + len(raw)) * 8 // 6
        texts.append((f"base64 at {phase}", base64.b64encode(bytes(phase) + raw).decode()[first:end]))
        texts.append((f"base64url at {phase}", base64.urlsafe_b64encode(bytes(phase) + raw).decode()[first:end]))
    for form, text in texts:
        found += [(form, text.encode()), (form + " utf-16", text.encode("utf-16-le"))]
    return found


def text_forms(text):
    found = []
    for encoding in ("utf-8", "latin-1", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        raw = text.encode(encoding)
        found.append((encoding, raw))
        # Parts of it tell as much: each run of 8 characters.
        found += [("part of " + encoding, text[i : i + 8].encode(encoding)) for i in range(len(text) - 7)]
        found.append(("reversed " + encoding, text[::-1].encode(encoding)))
    for encoding in ("utf-8", "utf-16-le"):
        found += [(f"{form} of {encoding}", raw) for form, raw in byte_forms(text.encode(encoding))]
    quoted = "".join(f"%{b:02X}" for b in text.encode())
    return found + [("url", quoted.encode()), ("url utf-16", quoted.encode("utf-16-le")), ("url", quoted.lower().encode())]


def number_forms(value, width):
    little = value.to_bytes(width, "little")
    found = [("little-endian", little), ("big-endian", little[::-1])]
    found += [("decimal", str(value).encode()), ("decimal utf-16", str(value).encode("utf-16-le"))]
    found += [("hex", f"{value:x}".encode()), ("HEX", f"{value:X}".encode())]
    found += [("double", struct.pack("<d", value)), ("double, big-endian", struct.pack(">d", value))]
    if width == 8:
        found += [("digits of Python", digits_of_python(value))]
        if value >> 56:
            found += [("7 bytes", little[:7]), ("upper 7 bytes", little[1:])]
    return found


def digits_of_python(value):
    """CPython keeps an integer as digits of 30 bits, each in 4 bytes."""
    digits = b""
    while value:
        digits += struct.pack("<I", value & (1 << 30) - 1)
        value >>= 30
    return digits


def in_source(source):
    """The secrets that a source names, and the source with those in it that are part of the program.

    `text("place")` (or put_text, text_utf16, text_bytes: the form in which the program puts it is no matter here) is told
    at run time, `@text:place@` stands for the value itself. `mix` has three: <place>_six, <place>_pin and <place>_small.
    """
    secrets = {}

    def name(place, kind, sent):
        if kind == "mix":
            return [name(f"{place}_{k}", k, sent) for k in ("six", "pin", "small")]
        return secrets.setdefault(place, Secret.new(place, kind, sent))

    kinds = "|".join(sorted([*KINDS, "mix"], key=len, reverse=True))
    for kind, place in re.findall(rf"\b(?:put_)?({kinds})(?:_utf16|_utf32|_bytes)?\(\"(\w+)\"", source):
        name(place, kind, True)
    source = re.sub(rf"@({kinds}):(\w+)@", lambda m: str(name(m[2], m[1], False).value), source)
    return list(secrets.values()), source
