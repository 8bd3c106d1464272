//! Names of native code: a small image made by hand, in memory and as a file,
//! lies of all kinds in it, and the real cores.

use std::io::Write;
use std::path::Path;

use crate::support::Rng;
use crate::support::builder::{CoreBuilder, Load, R, W, X, file_with};
use crate::support::{notes, real};
use coremap::addr::Addr;
use coremap::native::{NativeSymbol, NativeSymbols};
use coremap::process::{Options, Process};
use coremap::progress::Progress;

/// Where the image is loaded.
const BASE: u64 = 0x40_0000;
const TEXT_END: u64 = 0x2000;
const LEN: usize = 0x3000;

const FUNC: u8 = 2;
const OBJECT: u8 = 1;
const NOTYPE: u8 = 0;
const TLS: u8 = 6;
const IFUNC: u8 = 10;
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;
const LOCAL: u8 = 0;

/// A symbol: name, type, binding, section index, value, size.
type Sym<'a> = (&'a str, u8, u8, u16, u64, u64);

/// Which table tells the number of dynamic symbols.
#[derive(Clone, Copy, PartialEq)]
enum Hash {
    SysV,
    Gnu,
}

fn put(out: &mut [u8], at: u64, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Entries (after the null one) and the names they point to.
fn table(symbols: &[Sym<'_>]) -> (Vec<u8>, Vec<u8>) {
    let (mut entries, mut names) = (vec![0u8; 24], vec![0u8]);
    for &(name, kind, bind, section, value, size) in symbols {
        entries.extend((names.len() as u32).to_le_bytes());
        entries.extend([bind << 4 | kind, 0]);
        entries.extend(section.to_le_bytes());
        entries.extend(words64(&[value, size]));
        names.extend(name.bytes().chain([0]));
    }
    (entries, names)
}

/// The addresses of the parts of [`image`].
mod at {
    pub(crate) const NOTE: u64 = 0x200;
    pub(crate) const HASH: u64 = 0x300;
    pub(crate) const DYNSYM: u64 = 0x400;
    pub(crate) const DYNSTR: u64 = 0x800;
    pub(crate) const RELA: u64 = 0xc00;
    pub(crate) const PLT: u64 = 0x1000;
    pub(crate) const TEXT: u64 = 0x1100;
    pub(crate) const DYNAMIC: u64 = 0x2000;
    pub(crate) const GOT: u64 = 0x2200;
    pub(crate) const DATA: u64 = 0x2300;
}

const BUILD_ID: [u8; 4] = [0xab, 0xcd, 0xef, 0x01];

/// An ELF image; its addresses are its offsets, so it is its own file, too.
fn image(dynsym: &[Sym<'_>], hash: Hash) -> Vec<u8> {
    let mut out = vec![0u8; LEN];
    put(&mut out, 0, [0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    put(&mut out, 16, [3, 0, 62, 0, 1, 0, 0, 0]);
    put(&mut out, 32, words64(&[64]));
    put(&mut out, 52, [64, 0, 56, 0, 4, 0, 64, 0]);
    let header = |kind: u32, flags: u32, at: u64, len: u64| {
        [words32(&[kind, flags]), words64(&[at, at, at, len, len, 0x1000])].concat()
    };
    put(&mut out, 64, header(1, R | X, 0, TEXT_END));
    put(&mut out, 64 + 56, header(1, R | W, TEXT_END, LEN as u64 - TEXT_END));
    put(&mut out, 64 + 112, header(2, R | W, at::DYNAMIC, 0x200));
    put(&mut out, 64 + 168, header(4, R, at::NOTE, 0x14));
    put(&mut out, at::NOTE, [&words32(&[4, 4, 3])[..], b"GNU\0", &BUILD_ID].concat());
    let (entries, names) = table(dynsym);
    let count = dynsym.len() as u32 + 1;
    put(&mut out, at::DYNSYM, &entries);
    put(&mut out, at::DYNSTR, &names);
    match hash {
        Hash::SysV => put(&mut out, at::HASH, words32(&[1, count, 1])),
        Hash::Gnu => {
            // One bucket, from symbol 1 on; the last chain word has its low bit set.
            let chains = (1..count).map(|i| u32::from(i + 1 == count));
            let all: Vec<u32> = [1, 1, 1, 0, 0, 0, 1].into_iter().chain(chains).collect();
            put(&mut out, at::HASH, words32(&all));
        }
    }
    let hash_tag = if hash == Hash::SysV { 4 } else { 0x6fff_fef5 };
    let entries = [
        (hash_tag, at::HASH),
        (5, at::DYNSTR),
        (6, at::DYNSYM),
        (10, names.len() as u64),
        (23, at::RELA),
        (2, 24 * 4),
        (0, 0),
    ];
    put(&mut out, at::DYNAMIC, entries.map(|(tag, value)| words64(&[tag, value])).concat());
    out
}

/// A core that maps the image from /bin/prog.
fn core(image: &[u8]) -> Vec<u8> {
    let split = (BASE + TEXT_END, (BASE + LEN as u64));
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(7, 11, 0x7000_0000_0f00, BASE + at::TEXT, 0))
        .note(notes::auxv(&[(6, 4096)]))
        .note(notes::files(1, &[(BASE, split.0, 0, "/bin/prog"), (split.0, split.1, TEXT_END, "/bin/prog")]))
        .load(Load::at(BASE).flags(R | X).bytes(&image[..TEXT_END as usize]))
        .load(Load::at(split.0).flags(R | W).bytes(&image[TEXT_END as usize..LEN]))
        .load(Load::at(0x7000_0000_0000).bytes(vec![2; 0x1000]))
        .build()
}

fn open(core: &[u8], symbols: &[&Path]) -> Process {
    let file = file_with(core);
    let options = Options { symbols: symbols.iter().map(|p| p.to_path_buf()).collect(), ..Options::default() };
    Process::open(file.path(), &options, &Progress::silent()).unwrap()
}

/// `name+offset source` at an address of the image.
fn named(names: &NativeSymbols<'_>, at: u64) -> String {
    names.resolve(Addr::new(BASE + at)).map_or("-".into(), |s| shown(&s))
}

fn shown(s: &NativeSymbol) -> String {
    format!("{}+{} {}", s.name, s.offset, s.source)
}

/// The image as a file with sections, their names, types and bytes; those that
/// are in the image have an address instead.
fn file(image: &[u8], extra: &[(&str, u32, Vec<u8>, u32)]) -> Vec<u8> {
    let mut out = image.to_vec();
    let mut names = vec![0u8];
    let mut headers = vec![0u8; 64];
    let mut add = |name: &str, words: [u64; 6], kind: u32, link: u32| {
        let [flags, addr, offset, size, align, entry] = words;
        headers.extend(words32(&[names.len() as u32, kind]));
        headers.extend(words64(&[flags, addr, offset, size]));
        headers.extend(words32(&[link, 0]));
        headers.extend(words64(&[align, entry]));
        names.extend(name.bytes().chain([0]));
    };
    // Index 1 to 4.
    add(".plt", [6, at::PLT, at::PLT, 0x100, 16, 16], 1, 0);
    add(".text", [6, at::TEXT, at::TEXT, 0x600, 16, 0], 1, 0);
    add(".fini", [6, at::TEXT + 0x600, at::TEXT + 0x600, 0x100, 16, 0], 1, 0);
    add(".data", [3, at::DATA, at::DATA, 0x100, 8, 0], 1, 0);
    for (name, kind, bytes, link) in extra {
        add(name, [0, 0, out.len() as u64, bytes.len() as u64, 8, 24], *kind, *link);
        out.extend(bytes);
    }
    add(".shstrtab", [0; 6], 3, 0);
    let last = headers.len() / 64 - 1;
    put(&mut headers, 64 * last as u64 + 24, words64(&[out.len() as u64, names.len() as u64]));
    out.extend(&names);
    let at = out.len() as u64;
    put(&mut out, 40, words64(&[at]));
    put(&mut out, 60, [last as u8 + 1, 0, last as u8, 0]);
    out.extend(headers);
    out
}

fn with_symtab(image: &[u8], symbols: &[Sym<'_>]) -> Vec<u8> {
    let (entries, names) = table(symbols);
    file(image, &[(".symtab", 2, entries, 6), (".strtab", 3, names, 0)])
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A directory for `--symbols` with these files.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    dir
}

const T: u64 = at::TEXT;

const DYNSYM: &[Sym<'_>] = &[
    ("imported", FUNC, GLOBAL, 0, 0, 0),
    ("other_import", FUNC, GLOBAL, 0, 0, 0),
    ("__read", FUNC, GLOBAL, 2, T + 0x40, 0x20),
    ("read", FUNC, WEAK, 2, T + 0x40, 0x20),
    ("_ZN3foo3barEi", FUNC, GLOBAL, 2, T, 0x30),
    ("chooser", IFUNC, GLOBAL, 2, T + 0x80, 0x10),
    ("no_size", FUNC, GLOBAL, 2, T + 0xa0, 0),
    ("after", FUNC, GLOBAL, 2, T + 0x100, 0x10),
    ("table", OBJECT, GLOBAL, 4, at::DATA, 0x40),
    ("mark", OBJECT, GLOBAL, 4, at::DATA + 0x50, 0),
    ("per_thread", TLS, GLOBAL, 4, at::DATA, 0x40),
    ("absolute", FUNC, GLOBAL, 0xfff1, T + 0x120, 0x10),
];

#[test]
fn dynamic_symbols_are_read_from_memory() {
    for hash in [Hash::SysV, Hash::Gnu] {
        let process = open(&core(&image(DYNSYM, hash)), &[]);
        let names = NativeSymbols::new(&process);
        assert_eq!(named(&names, T), "foo::bar(int)+0 dynsym");
        assert_eq!(named(&names, T + 0x2f), "foo::bar(int)+47 dynsym");
        assert_eq!(named(&names, T + 0x30), "-", "past its end is nobody's");
        assert_eq!(named(&names, T + 0x41), "read+1 dynsym", "the alias that gdb tells");
        assert_eq!(named(&names, T + 0x80), "chooser+0 dynsym");
        assert_eq!(named(&names, T + 0xa0), "no_size+0 dynsym", "without a size: itself");
        assert_eq!(named(&names, T + 0xa1), "-", "and no more: what follows may be a function that isn't exported");
        assert_eq!(named(&names, T + 0x100), "after+0 dynsym");
        assert_eq!(named(&names, T + 0x120), "-", "an absolute value is no address");
        assert_eq!(named(&names, at::DATA), "-", "no code there");
        let symbol = names.resolve(Addr::new(BASE + T + 4)).unwrap();
        assert_eq!((&*symbol.raw, symbol.start, symbol.size), ("_ZN3foo3barEi", Addr::new(BASE + T), 0x30));
        assert_eq!((symbol.sized, names.module_name(&symbol)), (true, "prog"));
        assert_eq!(process.modules[symbol.module.unwrap()].name(), "prog");
        let data = |at| names.resolve_data(Addr::new(BASE + at)).map_or("-".into(), |s| shown(&s));
        assert_eq!(data(at::DATA + 0x3f), "table+63 dynsym");
        assert_eq!(data(at::DATA + 0x40), "-");
        assert_eq!(data(at::DATA + 0x50), "mark+0 dynsym");
        assert_eq!(data(at::DATA + 0x51), "-");
        assert_eq!(data(T), "-");
    }
}

#[test]
fn many_threads_may_ask() {
    let process = open(&core(&image(DYNSYM, Hash::Gnu)), &[]);
    let names = NativeSymbols::new(&process);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..10_000 {
                    assert_eq!(named(&names, T + i % 0x30), format!("foo::bar(int)+{} dynsym", i % 0x30));
                }
            });
        }
    });
}

const SYMTAB: &[Sym<'_>] = &[
    ("file.c", 4, LOCAL, 0xfff1, 0, 0),
    ("$x", NOTYPE, LOCAL, 2, T + 0x30, 0),
    ("helper", FUNC, LOCAL, 2, T + 0x30, 0x10),
    ("__GI_read", FUNC, LOCAL, 2, T + 0x40, 0x20),
    ("zzz_read", FUNC, LOCAL, 2, T + 0x40, 0x20),
    ("read@@V_2.0", FUNC, WEAK, 2, T + 0x40, 0x20),
    ("outer", FUNC, GLOBAL, 2, T + 0x200, 0x100),
    ("inner", FUNC, LOCAL, 2, T + 0x240, 0x10),
    ("label", NOTYPE, LOCAL, 2, T + 0x280, 0),
    ("bare", NOTYPE, GLOBAL, 2, T + 0x400, 0),
    ("_fini", FUNC, GLOBAL, 3, T + 0x600, 0),
    ("hidden", OBJECT, LOCAL, 4, at::DATA + 0x80, 8),
    ("label_beside", NOTYPE, GLOBAL, 2, T + 0x300, 0x20),
    ("function_beside", FUNC, LOCAL, 2, T + 0x300, 0x20),
];

fn check_symtab(names: &NativeSymbols<'_>, source: &str) {
    let is = |at, want: &str| assert_eq!(named(names, at), want.replace('*', source), "at {at:#x}");
    is(T, "foo::bar(int)+0 dynsym");
    is(T + 0x30, "helper+0 *");
    is(T + 0x40, "read+0 dynsym");
    is(T + 0x23f, "outer+63 *");
    is(T + 0x24f, "inner+15 *");
    is(T + 0x250, "outer+80 *");
    is(T + 0x280, "outer+128 *");
    is(T + 0x310, "function_beside+16 *");
    is(T + 0x5ff, "bare+511 *");
    is(T + 0x600, "_fini+0 *");
    is(T + 0x700, "-");
    assert_eq!(shown(&names.resolve_data(Addr::new(BASE + at::DATA + 0x81)).unwrap()), format!("hidden+1 {source}"));
}

#[test]
fn a_proven_file_adds_its_symtab() {
    let image = image(DYNSYM, Hash::Gnu);
    let dir = folder(&[("prog", &with_symtab(&image, SYMTAB))]);
    // All of the module is in the core: its file is of use all the same.
    let process = open(&core(&image), &[dir.path()]);
    check_symtab(&NativeSymbols::new(&process), "symtab");
}

#[test]
fn a_debug_file_is_found_by_build_id_or_name() {
    let image = image(DYNSYM, Hash::Gnu);
    let debug = with_symtab(&image, SYMTAB);
    for name in [".build-id/ab/cdef01.debug", "prog.debug", "prog.dbg", "usr/lib/debug/bin/prog.debug"] {
        let dir = folder(&[(name, &debug)]);
        let process = open(&core(&image), &[dir.path()]);
        check_symtab(&NativeSymbols::new(&process), "debug file");
    }
}

#[test]
fn a_file_of_another_build_adds_nothing() {
    let image = image(DYNSYM, Hash::Gnu);
    let mut other = with_symtab(&image, SYMTAB);
    other[at::NOTE as usize + 16] ^= 1;
    for name in [".build-id/ab/cdef01.debug", "prog.debug", "prog"] {
        let dir = folder(&[(name, &other)]);
        let process = open(&core(&image), &[dir.path()]);
        assert_eq!(named(&NativeSymbols::new(&process), T + 0x30), "-", "{name}");
    }
}

#[test]
fn gnu_debugdata_is_unpacked() {
    let image = image(DYNSYM, Hash::Gnu);
    let small = with_symtab(&image, SYMTAB);
    let dir = folder(&[("prog", &file(&image, &[(".gnu_debugdata", 1, xz(&small), 0)]))]);
    let process = open(&core(&image), &[dir.path()]);
    check_symtab(&NativeSymbols::new(&process), "gnu_debugdata");
}

#[test]
fn bad_gnu_debugdata_is_left_alone() {
    let image = image(DYNSYM, Hash::Gnu);
    let bomb = xz(&vec![0; 80 << 20]);
    let mut cut = xz(&with_symtab(&image, SYMTAB));
    cut.truncate(cut.len() / 2);
    for data in [bomb, cut, vec![], b"\xfd7zXZ\0\0\x04nonsense".to_vec()] {
        let dir = folder(&[("prog", &file(&image, &[(".gnu_debugdata", 1, data, 0)]))]);
        let process = open(&core(&image), &[dir.path()]);
        let names = NativeSymbols::new(&process);
        assert_eq!(named(&names, T), "foo::bar(int)+0 dynsym");
        assert_eq!(named(&names, T + 0x30), "-");
    }
}

/// `jmp *slot(%rip)` at `at` after `before` bytes of other instructions.
fn jump(at: u64, before: u64, slot: u64) -> [u8; 6] {
    let [a, b, c, d] = ((slot - (at + before + 6)) as u32).to_le_bytes();
    [0xff, 0x25, a, b, c, d]
}

/// The image with stubs of all forms: what GNU ld 2.40 makes of `-z lazy`, `-z
/// now` (.plt.got), `-z ibtplt` (.plt.sec) and IFUNCs.
fn with_stubs() -> Vec<u8> {
    let mut out = image(DYNSYM, Hash::Gnu);
    let p = at::PLT;
    // Slot 0: imported; 1: other_import; 2: the IFUNC; 3: one of no symbol.
    let rela =
        |slot: u64, kind: u64, symbol: u64, addend: u64| words64(&[at::GOT + 8 * slot, symbol << 32 | kind, addend]);
    let relocations = [rela(0, 7, 1, 0), rela(1, 7, 2, 0), rela(2, 37, 0, T + 0x80), rela(3, 8, 0, 0)];
    put(&mut out, at::RELA, relocations.concat());
    put(&mut out, p, [0xff, 0x35, 0, 0, 0, 0]);
    for (i, slot) in [0u64, 1, 2, 3].into_iter().enumerate() {
        let at = p + 0x10 + 0x10 * i as u64;
        put(&mut out, at, jump(at, 0, at::GOT + 8 * slot));
        put(&mut out, at + 6, [0x68, i as u8, 0, 0, 0, 0xe9, 0, 0, 0, 0]);
    }
    // .plt.got
    put(&mut out, p + 0x50, jump(p + 0x50, 0, at::GOT + 8));
    put(&mut out, p + 0x56, [0x66, 0x90]);
    put(&mut out, p + 0x58, jump(p + 0x58, 0, at::GOT));
    put(&mut out, p + 0x5e, [0x66, 0x90]);
    // .plt.sec, with and without bnd
    put(&mut out, p + 0x60, [0xf3, 0x0f, 0x1e, 0xfa]);
    put(&mut out, p + 0x64, jump(p + 0x60, 4, at::GOT));
    put(&mut out, p + 0x6a, [0x66, 0x0f, 0x1f, 0x44, 0, 0]);
    put(&mut out, p + 0x70, [0xf3, 0x0f, 0x1e, 0xfa, 0xf2]);
    put(&mut out, p + 0x75, jump(p + 0x70, 5, at::GOT + 8));
    put(&mut out, p + 0x7b, [0x0f, 0x1f, 0x44, 0, 0]);
    // Its lazy half
    put(&mut out, p + 0x80, [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0, 0xf2, 0xe9, 0, 0, 0, 0, 0x90]);
    // An index that is none
    put(&mut out, p + 0x90, [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0xff, 0xff, 0xff, 0xff, 0xf2, 0xe9, 0, 0, 0, 0, 0x90]);
    // A function's last jump, which is no stub
    put(&mut out, p + 0xa0, jump(p + 0xa0, 0, at::GOT));
    put(&mut out, p + 0xa6, [0x55, 0x48]);
    out
}

#[test]
fn stubs_have_the_name_of_what_they_jump_to() {
    let image = with_stubs();
    let dir = folder(&[("prog", &with_symtab(&image, SYMTAB))]);
    for symbols in [&[][..], &[dir.path()]] {
        let process = open(&core(&image), symbols);
        let names = NativeSymbols::new(&process);
        let is = |at, want: &str| assert_eq!(named(&names, at::PLT + at), want, "at {at:#x}");
        is(0, "-");
        is(0x10, "imported@plt+0 plt");
        is(0x1f, "imported@plt+15 plt");
        is(0x28, "other_import@plt+8 plt");
        is(0x30, "chooser@plt+0 plt");
        is(0x40, "-");
        is(0x57, "other_import@plt+7 plt");
        is(0x58, "imported@plt+0 plt");
        is(0x64, "imported@plt+4 plt");
        is(0x7f, "other_import@plt+15 plt");
        is(0x84, "other_import@plt+4 plt");
        is(0x90, "-");
        is(0xa0, "-");
        assert_eq!(names.resolve(Addr::new(BASE + at::PLT + 0x58)).unwrap().size, 8);
    }
}

/// Ask everywhere; answers hold the address that was asked for.
fn ask_everywhere(process: &Process) -> usize {
    let names = NativeSymbols::new(process);
    let mut hits = 0;
    for at in (0..LEN as u64 + 0x100).step_by(7).map(|at| Addr::new(BASE + at)) {
        for symbol in [names.resolve(at), names.resolve_data(at)].into_iter().flatten() {
            hits += 1;
            assert_eq!(symbol.start.get() + symbol.offset, at.get(), "{symbol:?}");
            assert!(symbol.offset == 0 || symbol.offset < symbol.size, "{symbol:?}");
            assert!(!symbol.name.is_empty() && !symbol.raw.is_empty(), "{symbol:?}");
        }
    }
    hits
}

#[test]
fn lies_about_counts_and_names_end() {
    let good = image(DYNSYM, Hash::Gnu);
    let patched = |at: u64, bytes: &[u8]| {
        let mut out = good.clone();
        put(&mut out, at, bytes);
        out
    };
    let max = u32::MAX.to_le_bytes();
    let sym = |i: u64, field: u64| at::DYNSYM + 24 * i + field;
    let mut endless = good.clone();
    endless[at::HASH as usize + 28..at::DYNSYM as usize].fill(0);
    let mut sysv = image(DYNSYM, Hash::SysV);
    put(&mut sysv, at::HASH + 4, max);
    let cases = [
        ("buckets", patched(at::HASH, &max)),
        ("first symbol", patched(at::HASH + 4, &max)),
        ("bloom words", patched(at::HASH + 8, &max)),
        ("bucket", patched(at::HASH + 24, &max)),
        ("a chain without end", endless),
        ("chains", sysv),
        ("name offset", patched(sym(5, 0), &max)),
        ("name offset in the middle of nowhere", patched(sym(5, 0), &[0, 0, 1, 0])),
        ("size", patched(sym(5, 16), &[0xff; 8])),
        ("value", patched(sym(5, 8), &[0xff; 8])),
        ("value and size", patched(sym(5, 8), &[0xff; 16])),
        ("strings", patched(at::DYNAMIC + 24, &[0xff; 8])),
        ("symbols", patched(at::DYNAMIC + 40, &[0xff; 8])),
        ("length of strings", patched(at::DYNAMIC + 56, &[0xff; 8])),
        ("relocations", patched(at::DYNAMIC + 72, &[0xff; 8])),
        ("length of relocations", patched(at::DYNAMIC + 88, &[0xff; 8])),
    ];
    for (what, image) in cases {
        let process = open(&core(&image), &[]);
        ask_everywhere(&process);
        if what.starts_with("name") || what == "chains" || what.contains("relocations") {
            assert_eq!(named(&NativeSymbols::new(&process), T + 0x100), "after+0 dynsym", "{what}");
        }
        if what.starts_with("name") {
            assert_eq!(named(&NativeSymbols::new(&process), T), "-", "{what}");
        }
        if what == "size" {
            let names = NativeSymbols::new(&process);
            let symbol = names.resolve(Addr::new(BASE + T)).unwrap();
            assert_eq!(symbol.start.get() + symbol.size, BASE + TEXT_END, "cut where code ends");
            assert_eq!(named(&names, T + 0x40), "read+0 dynsym");
        }
    }
}

#[test]
fn a_name_cut_off_by_the_dump_is_not_told() {
    let mut image = image(DYNSYM, Hash::Gnu);
    // The name of the first symbol begins at the image's last bytes and has no end.
    let at = LEN as u64 - 4;
    put(&mut image, at::DYNSYM + 24 * 5, ((at - at::DYNSTR) as u32).to_le_bytes());
    put(&mut image, at::DYNAMIC + 56, words64(&[0x10_0000]));
    put(&mut image, at, b"abcd");
    let process = open(&core(&image), &[]);
    assert_eq!(named(&NativeSymbols::new(&process), T), "-");
    put(&mut image, at, b"abc\0");
    let process = open(&core(&image), &[]);
    assert_eq!(named(&NativeSymbols::new(&process), T), "abc+0 dynsym");
}

#[test]
fn anything_may_be_wrong_in_image_and_file() {
    let good = with_stubs();
    let small = with_symtab(&good, SYMTAB);
    let (entries, names) = table(SYMTAB);
    let whole =
        file(&good, &[(".symtab", 2, entries, 6), (".strtab", 3, names, 0), (".gnu_debugdata", 1, xz(&small), 0)]);
    let mut rng = Rng(0x5eed);
    let mut hits = 0;
    for _ in 0..400 {
        let (mut image, mut file) = (good.clone(), whole.clone());
        for _ in 0..1 + rng.below(6) {
            let word = [0, 1, 0x7f, 0xff, rng.next() as u8][rng.below(5) as usize];
            let width = 1 << rng.below(4);
            let target = if rng.below(2) == 0 { &mut image } else { &mut file };
            // Headers and tables, not the zeros between.
            let at = match rng.below(3) {
                0 => rng.below(0x1200),
                1 => at::DYNAMIC + rng.below(0x80),
                _ => target.len() as u64 - 8 - rng.below(1600),
            };
            target[at as usize..at as usize + width].fill(word);
        }
        let dir = folder(&[("prog", &file), ("prog.debug", &file)]);
        hits += ask_everywhere(&open(&core(&image), &[dir.path()]));
    }
    assert!(hits > 10_000, "most changes leave names: {hits}");
}

fn real_process(name: &str) -> Process {
    Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap()
}

/// First address of the mapping of a file, as /proc/PID/maps had it.
fn start(name: &str, file: &str) -> u64 {
    real::truth(name).maps.iter().find(|m| m.name.ends_with(file)).unwrap().start
}

#[track_caller]
fn is_named(names: &NativeSymbols<'_>, at: u64, want: &str) {
    let got = names.resolve(Addr::new(at)).map(|s| format!("{}+{:#x} {}", s.name, s.offset, names.module_name(&s)));
    assert_eq!(got.as_deref().unwrap_or("-"), want, "{at:#x}");
}

/// Addresses and sizes from `nm -D -S` of the file that was mapped (Debian's musl
/// 1.2.3-1); `memset+327` is what gdb 13.1 said of each thread's PC, stubs are
/// from `objdump -d -j .plt`.
#[test]
fn musl_as_nm_and_gdb_have_it() {
    let process = real_process("native-musl-gcore");
    let names = NativeSymbols::new(&process);
    let libc = start("native-musl-gcore", "/libc.so");
    for thread in process.threads() {
        // In __syscall_cp_asm, which isn't exported; memset, the nearest below, has no size.
        is_named(&names, thread.registers.ip().get(), "-");
    }
    is_named(&names, libc + 0x27920, "malloc+0x0 libc.so");
    is_named(&names, libc + 0x27924, "malloc+0x4 libc.so");
    is_named(&names, libc + 0x5d082, "printf+0xc2 libc.so");
    is_named(&names, libc + 0x5d083, "-");
    is_named(&names, libc + 0x71268, "pause+0x8 libc.so");
    let data = names.resolve_data(Addr::new(libc + 0xaec44)).unwrap();
    assert_eq!((&*data.name, data.offset, data.size), ("environ", 4, 8));
    is_named(&names, libc + 0x15000, "-");
    is_named(&names, libc + 0x15010, "malloc@plt+0x0 libc.so");
    is_named(&names, libc + 0x1506f, "free@plt+0xf libc.so");
}

/// `nm -D -S` of the vdso's bytes, cut out of the core.
#[test]
fn the_vdso_as_nm_has_it() {
    let process = real_process("native-glibc-kernel");
    let names = NativeSymbols::new(&process);
    let vdso = start("native-glibc-kernel", "[vdso]");
    is_named(&names, vdso + 0x810, "gettimeofday+0x0 [vdso]");
    is_named(&names, vdso + 0xe75, "clock_gettime+0x385 [vdso]");
    is_named(&names, vdso + 0xe76, "-");
    is_named(&names, vdso + 0xf2b, "getcpu+0x2b [vdso]");
    assert_eq!(names.resolve(Addr::new(vdso + 0x810)).unwrap().module, None);
}

/// `nm -D -S` and `nm -D -C` of Debian's libstdc++6 12.2.0-14+deb12u1.
#[test]
fn cpp_as_nm_has_it() {
    let process = real_process("dotnet31-gcore");
    let names = NativeSymbols::new(&process);
    let library = start("dotnet31-gcore", "/libstdc++.so.6.0.30");
    is_named(&names, library + 0xd4501, "std::thread::join()+0x1 libstdc++.so.6.0.30");
    is_named(&names, library + 0x13_0fc0, "std::ostream::operator<<(int)+0x0 libstdc++.so.6.0.30");
    is_named(&names, library + 0xe_cf6b, "std::string::append(char const*)+0x2b libstdc++.so.6.0.30");
    let data = names.resolve_data(Addr::new(library + 0x21_7501)).unwrap();
    assert_eq!((&*data.name, data.offset, data.size), ("std::cout", 1, 0x110));
}
