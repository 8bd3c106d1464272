//! The real cores of testdata/cores, with what their processes reported about
//! themselves.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use super::cases::case;
use super::elf;

/// Path of the compressed core in the repository.
pub fn packed(name: &str) -> PathBuf {
    case(name).packed()
}

/// That path as an argument.
pub fn argument(name: &str) -> String {
    packed(name).to_str().unwrap().to_owned()
}

/// A text file next to the core.
pub fn beside(name: &str, file: &str) -> String {
    let path = case(name).folder.join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The official data-access library's answer.
pub fn official(name: &str) -> Value {
    serde_json::from_str(&beside(name, "official.json")).unwrap()
}

/// The folder of the decompressed cores: cargo's own folder for tests, because
/// nothing runs when a test ends.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Decompresses the core, once for all tests. Zeros become holes.
pub fn plain(name: &str) -> PathBuf {
    static DONE: OnceLock<Mutex<BTreeMap<String, PathBuf>>> = OnceLock::new();
    let mut done = DONE.get_or_init(Mutex::default).lock().unwrap();
    if let Some(path) = done.get(name) {
        return path.clone();
    }
    let path = folder().join(format!("{name}.core"));
    let mut file = tempfile::NamedTempFile::new_in(folder()).unwrap();
    write_sparse(file.as_file_mut(), &bytes(name));
    file.persist(&path).unwrap();
    done.insert(name.to_owned(), path.clone());
    path
}

/// Writes bytes with holes for zero blocks.
pub fn write_sparse(file: &mut File, bytes: &[u8]) {
    use std::io::Seek;
    for block in bytes.chunks(64 << 10) {
        if block.iter().all(|&b| b == 0) {
            file.seek_relative(block.len() as i64).unwrap();
        } else {
            file.write_all(block).unwrap();
        }
    }
    file.set_len(bytes.len() as u64).unwrap();
}

/// The core's bytes, decompressed by the crates and not by the program.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = packed(name);
    let input = BufReader::new(File::open(&path).unwrap());
    let mut out = Vec::new();
    match path.extension().unwrap().to_str().unwrap() {
        "zst" => {
            let mut decoder = zstd::Decoder::with_buffer(input).unwrap();
            decoder.window_log_max(27).unwrap();
            decoder.read_to_end(&mut out)
        }
        "gz" => flate2::bufread::MultiGzDecoder::new(input).read_to_end(&mut out),
        "xz" => liblzma::bufread::XzDecoder::new(input).read_to_end(&mut out),
        "lz4" => lz4_flex::frame::FrameDecoder::new(input).read_to_end(&mut out),
        other => panic!("{other}"),
    }
    .unwrap();
    out
}

#[derive(Clone, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub perms: String,
    pub name: String,
}

/// A stack as reported by its thread.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    pub tid: u64,
    pub low: u64,
    pub size: u64,
    pub guard: u64,
}

/// What the process reported about itself just before the dump.
pub struct Truth {
    pub pid: u64,
    pub threads: Vec<Stack>,
    pub ended: Vec<Stack>,
    pub maps: Vec<Mapping>,
    pub all: Value,
}

pub fn hex(v: &Value) -> u64 {
    let text = v.as_str().unwrap_or_else(|| panic!("not an address: {v}"));
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

/// The process's report as raw JSON.
pub fn own_report(name: &str) -> Value {
    serde_json::from_str(&beside(name, "truth.json")).unwrap()
}

pub fn truth(name: &str) -> Truth {
    let all = own_report(name);
    let stacks = |key: &str| {
        let list = all[key].as_array().unwrap().iter();
        list.map(|t| Stack {
            tid: t["tid"].as_u64().unwrap(),
            low: hex(&t["stack_lo"]),
            size: t["stack_size"].as_u64().unwrap(),
            guard: t["guard_size"].as_u64().unwrap(),
        })
        .collect()
    };
    let maps = all["maps"].as_str().unwrap().lines().filter(|l| !l.is_empty()).map(mapping).collect();
    Truth { pid: all["pid"].as_u64().unwrap(), threads: stacks("threads"), ended: stacks("ended_threads"), maps, all }
}

fn mapping(line: &str) -> Mapping {
    let mut words = line.split_whitespace();
    let (start, end) = words.next().unwrap().split_once('-').unwrap();
    let perms = words.next().unwrap().to_owned();
    let name = words.skip(3).collect::<Vec<_>>().join(" ");
    let number = |s| u64::from_str_radix(s, 16).unwrap();
    Mapping { start: number(start), end: number(end), perms, name }
}

/// Headers of the unpacked core, and its size.
pub fn headers(name: &str) -> (elf::Headers, u64) {
    let path = plain(name);
    let bytes = std::fs::read(&path).unwrap();
    (elf::read(&bytes), bytes.len() as u64)
}

/// Writes a copy of the core with other words at some addresses. The file is
/// removed with the returned value.
pub fn patched(name: &str, words: &[(u64, u64)]) -> tempfile::NamedTempFile {
    let path = plain(name);
    let mut bytes = std::fs::read(&path).unwrap();
    let loads = elf::read(&bytes).loads;
    for &(at, word) in words {
        let load = loads.iter().find(|l| l.vaddr <= at && at < l.vaddr + l.filesz);
        let load = load.unwrap_or_else(|| panic!("{at:#x} is not in {name}"));
        let place = (load.offset + (at - load.vaddr)) as usize;
        bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
    let mut file = tempfile::NamedTempFile::new_in(folder()).unwrap();
    write_sparse(file.as_file_mut(), &bytes);
    file
}
