//! Packed cores: in several parts, with windows and dictionaries that claim more memory
//! than there is, and onto disks that are full.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::support::builder::{CoreBuilder, Load, small_core};
use crate::support::notes;
use crate::support::run::{Output, bounded, program, shell};

/// One that is mostly zeros, and large enough for several blocks of each packing.
fn core() -> CoreBuilder {
    let noise: Vec<u8> = (0..3_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    small_core().load(Load::at(0x9000_0000).bytes(vec![0; 20 << 20])).load(Load::at(0xa000_0000).bytes(noise))
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKINGS: [(&str, Pack); 4] = [("zst", zst), ("gz", gz), ("xz", xz), ("lz4", lz4)];

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn summary(path: &Path) -> Output {
    program(["summary", "--zero-fill", "--json", path.to_str().unwrap()]).go()
}

#[test]
fn several_frames_streams_or_members_are_one_core() {
    let plain = core().write();
    let bytes = std::fs::read(plain.path()).unwrap();
    let want = summary(plain.path()).exits(0).json();
    for (name, pack) in PACKINGS {
        // As pzstd, pixz and `cat a b` write them; .xz and tar pad with zeros.
        let parts: Vec<Vec<u8>> = bytes.chunks(5_000_011).map(pack).collect();
        for padding in [0, 8] {
            let packed = file(&parts.join(&vec![0; padding][..]));
            let out = summary(packed.path());
            assert_eq!(out.exits(0).stderr, "", "{name}, {padding}");
            assert_eq!(out.json()["kinds"], want["kinds"], "{name}, {padding}");
            assert_eq!(out.json()["core"]["packed"], name);
        }
        let input = program(["summary", "--zero-fill", "--json", "-"]).input(parts.concat()).go();
        assert_eq!(input.exits(0).json()["kinds"], want["kinds"], "{name}");
        let trailing = summary(file(&[&pack(&bytes)[..], b"garbage"].concat()).path());
        assert_eq!(trailing.exits(0).json()["kinds"], want["kinds"], "{name}");
        assert!(trailing.stderr.contains("trailing"), "{}", trailing.stderr);
        // The second part is half there.
        let cut = summary(file(&parts.concat()[..parts[0].len() + parts[1].len() / 2]).path());
        assert!(cut.exits(4).stderr.contains("cut off"), "{name}: {}", cut.stderr);
    }
}

/// What `zstd --long=31` writes of a core that comes through a pipe: a window of 2 GiB.
fn window_of_2_gib(bytes: &[u8]) -> Vec<u8> {
    let mut packed = zst(bytes);
    // Frame_Header_Descriptor (RFC 8878, 3.1.1.1): no single segment, so that the next byte
    // is the window's: exponent 21, mantissa 0.
    assert_eq!(packed[4] & 0x20, 0);
    packed[5] = 21 << 3;
    packed
}

#[test]
fn a_window_of_2_gib_takes_no_2_gib_of_memory() {
    let plain = core().load(Load::at(0xb000_0000).bytes(vec![0; 200 << 20])).write();
    let packed = file(&window_of_2_gib(&std::fs::read(plain.path()).unwrap()));
    let out = bounded(&["summary", "--zero-fill", "--json"], packed.path()).go();
    assert_eq!(out.exits(0).json()["kinds"], summary(plain.path()).json()["kinds"]);
}

/// The stream with a dictionary of 4 GiB - 1, whatever it was made with.
fn dictionary_of_4_gib(bytes: &[u8]) -> Vec<u8> {
    let mut packed = xz(bytes);
    // The block's header follows the stream's 12 bytes: size, flags, filter 0x21 with one
    // byte of properties, padding, CRC32 (the .xz file format, 3.1).
    let len = (usize::from(packed[12]) + 1) * 4;
    assert_eq!(packed[13..16], [0, 0x21, 1]);
    packed[16] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&packed[12..12 + len - 4]);
    packed[12 + len - 4..12 + len].copy_from_slice(&crc.sum().to_le_bytes());
    packed
}

#[test]
fn a_dictionary_larger_than_memory_is_refused_with_what_to_do() {
    let plain = core().write();
    let bytes = std::fs::read(plain.path()).unwrap();
    let packed = file(&dictionary_of_4_gib(&bytes));
    let path = packed.path().to_str().unwrap();
    // 23 MB come out of it, and no more of the dictionary is used.
    assert_eq!(summary(packed.path()).exits(0).json()["kinds"], summary(plain.path()).json()["kinds"]);
    for input in [None, Some(std::fs::read(path).unwrap())] {
        let name = if input.is_some() { "-" } else { path };
        let mut run = program(["summary", "--memory", "10MiB", name]);
        run = input.into_iter().fold(run, |run, bytes| run.input(bytes));
        let out = run.go();
        assert_eq!((out.exits(3).stdout.as_str(), out.stderr.lines().count()), ("", 1));
        for word in ["dictionary needs 4.00 GiB", "10 MiB", "--memory 4097MiB"] {
            assert!(out.stderr.contains(word), "{}", out.stderr);
        }
    }
    // What is usual fits: `xz -9`.
    let out = program(["summary", "--memory", "nonsense", path]).go();
    assert!(out.exits(2).stderr.contains("4GiB"), "{}", out.stderr);
}

/// Runs a script for the shell with a tmpfs of so many MiB as `$TMPDIR`; `None` where the
/// system lets nobody make one.
fn with_small_tmpdir(mib: u32, args: &[&str]) -> Option<Output> {
    let mount = format!("mkdir -p \"$1\" && mount -t tmpfs -o size={mib}m none \"$1\"");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let made = Command::new("unshare").args(["-Urm", "sh", "-c", &mount, "sh", dir]).output();
    if !made.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: unshare can't make a small tmpfs here");
        return None;
    }
    let script = format!(
        "exec unshare -Urm sh -c '{mount} && TMPDIR=\"$1\" && export TMPDIR && shift && exec \"$@\"' sh {dir} \"$0\" \"$@\""
    );
    Some(shell(&script, args.iter().copied()).go())
}

#[test]
fn a_full_tmpdir_is_told_as_that() {
    let packed = file(&zst(&std::fs::read(core().write().path()).unwrap()));
    let Some(out) = with_small_tmpdir(1, &["summary", packed.path().to_str().unwrap()]) else { return };
    assert_eq!((out.exits(3).stdout.as_str(), out.stderr.lines().count()), ("", 1));
    assert!(out.stderr.contains("no space left in "), "{}", out.stderr);
    assert!(out.stderr.contains("set TMPDIR to another folder"), "{}", out.stderr);
}

#[test]
fn a_limit_on_file_sizes_is_told_as_that() {
    let packed = file(&zst(&std::fs::read(core().write().path()).unwrap()));
    let out = shell("ulimit -f 100; exec \"$0\" summary \"$1\"", [packed.path()]).go();
    assert_eq!((out.exits(3).stdout.as_str(), out.stderr.lines().count()), ("", 1));
    assert!(out.stderr.contains("ulimit -f"), "{}", out.stderr);
}

/// Small files can unpack to gigabytes. What is no core is refused from its beginning, before it fills the disk.
#[test]
fn what_is_no_core_is_not_unpacked() {
    let text = b"2026-11-27 12:00:00 INFO all is well\n".repeat(200_000);
    // An ELF file of 64 bits that is a program (e_type ET_EXEC, at 16), not a core.
    let mut elf = small_core().build();
    elf[16] = 2;
    elf.resize(6_000_000, 1);
    for (bytes, words) in
        [(&text, "not an ELF file: it looks like text"), (&elf, "an ELF program or library, not a core dump")]
    {
        let plain: Pack = <[u8]>::to_vec;
        for (name, pack) in PACKINGS.into_iter().chain([("plain", plain)]) {
            let packed = pack(bytes);
            let small = file(&packed);
            // Files are limited to 51,200 bytes.
            let out = shell("ulimit -f 100; exec \"$0\" summary - <\"$1\"", [small.path()]).go();
            assert!(out.exits(3).stderr.contains(words), "{name}: {}", out.stderr);
            let out = shell("ulimit -f 100; exec \"$0\" summary \"$1\"", [small.path()]).go();
            assert!(out.exits(3).stderr.contains(words), "{name}: {}", out.stderr);
        }
    }
    // A window larger than memory is unpacked in another way.
    let out = shell("ulimit -f 100; exec \"$0\" summary \"$1\"", [file(&window_of_2_gib(&text)).path()]).go();
    assert!(out.exits(3).stderr.contains("it looks like text"), "{}", out.stderr);
}

/// Zeros of an unpacked core are holes, and a hole that is read on a full tmpfs is a SIGBUS.
#[test]
fn holes_on_a_full_tmpdir_are_zeros_and_no_shrunk_core() {
    // Zeros with something between them, in stretches that are long and short.
    let mut bytes = vec![0; 40 << 20];
    for at in (0..20 << 20).step_by(72 << 10) {
        bytes[at] = 1;
    }
    let note = notes::prstatus_x86_64(1, 0, 0x9000_0000, 0, 0);
    let plain = CoreBuilder::x86_64().note(note).load(Load::at(0x9000_0000).bytes(bytes)).write();
    let packed = file(&zst(&std::fs::read(plain.path()).unwrap()));
    for command in ["anon", "search zzz", "summary --zero-fill", "whatis 0x92000000 --bytes 4096"] {
        let args: Vec<&str> = command.split(' ').chain([packed.path().to_str().unwrap()]).collect();
        let Some(out) = with_small_tmpdir(2, &args) else { return };
        out.is_sound();
        assert!(!out.stderr.contains("shrank") && !out.stderr.contains("io-error"), "{command}: {}", out.stderr);
        assert!(matches!(out.code, Some(0 | 1)), "{command}: {:?} {}", out.code, out.stderr);
    }
}
