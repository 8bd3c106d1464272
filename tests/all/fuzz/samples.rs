//! What damaged input is made from: parts of the real cores, and texts.

use std::io::Write;

use coremap::image::ModuleKind;
use coremap::internals;
use coremap::memory::Memory;
use coremap::process::{Options, Process};
use coremap::progress::Progress;

use crate::support::builder::small_core;
use crate::support::{elf, real};

/// Cores whose parts are taken.
const NATIVE: [&str; 3] = ["native-glibc-kernel", "native-musl-gcore", "native-aarch64-qemu"];
const DOTNET: [&str; 3] = ["dotnet31-createdump", "dotnet8-methods", "dotnet10-methods"];

/// Bytes of one sample: what is read of images and tables lies at their start.
const LONGEST: usize = 256 << 10;

fn open(name: &str) -> Process {
    Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap()
}

pub(crate) fn cores() -> Vec<Vec<u8>> {
    vec![small_core().build(), small_core().notes_last().sections(7).build()]
}

pub(crate) fn notes() -> Vec<Vec<u8>> {
    let of = |name: &&str| {
        let bytes = real::bytes(name);
        let (offset, size) = elf::read(&bytes).notes;
        bytes[offset..offset + size].iter().copied().take(LONGEST).collect()
    };
    NATIVE.iter().chain(&["dotnet31-kernel", "dotnet31-createdump"]).map(of).collect()
}

pub(crate) fn packed() -> Vec<Vec<u8>> {
    let core = small_core().build();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    gz.write_all(&core).unwrap();
    xz.write_all(&core).unwrap();
    lz4.write_all(&core).unwrap();
    let mut wide = zstd::encode_all(&core[..], 3).unwrap();
    // A window of 256 MiB (RFC 8878, 3.1.1.1.2), which is read back from the file.
    wide[5] = 18 << 3;
    let skipped =
        [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd::encode_all(&core[..], 1).unwrap()].concat();
    vec![wide, skipped, gz.finish().unwrap(), xz.finish().unwrap(), lz4.finish().unwrap()]
}

/// The modules of a core that `wanted` takes, as they lie in memory.
fn modules(name: &str, wanted: impl Fn(&ModuleKind) -> bool) -> Vec<Vec<u8>> {
    let process = open(name);
    let wanted = process.modules.iter().filter(|m| wanted(internals::kind(m)));
    let bytes = wanted.filter_map(|m| {
        let len = process.memory.readable(m.range.start, m.range.len().min(LONGEST as u64));
        process.memory.bytes(m.range.start, len as usize).ok()
    });
    bytes.filter(|b| b.len() >= 4096).take(6).collect()
}

pub(crate) fn images() -> Vec<Vec<u8>> {
    let of = |name: &&str| modules(name, |kind| matches!(kind, ModuleKind::Elf(_)));
    NATIVE.iter().flat_map(of).collect()
}

pub(crate) fn pe_files() -> Vec<Vec<u8>> {
    DOTNET.iter().flat_map(|name| modules(name, |kind| matches!(kind, ModuleKind::Pe { .. }))).collect()
}

/// Metadata roots (ECMA-335, II.24.2.1), and what follows them.
pub(crate) fn metadata() -> Vec<Vec<u8>> {
    let of = |name: &&str| -> Vec<Vec<u8>> {
        let bytes = real::bytes(name);
        let roots = memchr::memmem::find_iter(&bytes, b"BSJB\x01\0\x01\0");
        let parts = roots.map(|at| bytes[at..].iter().copied().take(LONGEST).collect::<Vec<u8>>());
        parts.filter(|part| coremap::image::metadata::Metadata::parse(&part[..]).is_ok()).take(4).collect()
    };
    DOTNET.iter().flat_map(of).collect()
}

/// A portable PDB with one method of two lines in one document (Portable PDB v1.0).
pub(crate) fn pdb() -> Vec<u8> {
    let mut blobs = vec![0];
    let mut blob = |bytes: &[u8]| {
        let at = blobs.len() as u16;
        blobs.push(bytes.len() as u8);
        blobs.extend(bytes);
        at
    };
    let (folder, file) = (blob(b"src"), blob(b"a.cs"));
    let name = blob(&[b'/', 0, folder as u8, file as u8]);
    let points = blob(&[0, 0, 0, 9, 10, 5, 2, 1, 0x02, 0x04, 0x08]);
    let mut tables = vec![0, 0, 0, 0, 2, 0, 0, 1];
    // Document (0x30) and MethodDebugInformation (0x31), a row each.
    tables.extend(((1u64 << 0x30) | (1 << 0x31)).to_le_bytes());
    tables.extend([0; 8]);
    tables.extend([1u32, 1].map(u32::to_le_bytes).concat());
    tables.extend([name, 1, 0, 1, 1, points].map(u16::to_le_bytes).concat());
    let mut id = vec![7; 20];
    id.extend([0; 4]);
    id.extend((1u64 << 6).to_le_bytes());
    id.extend(1u32.to_le_bytes());
    let streams: [(&[u8], Vec<u8>); 5] = [
        (b"#Pdb\0\0\0\0", id),
        (b"#~\0\0", tables),
        (b"#Strings\0\0\0\0", vec![0; 4]),
        (b"#GUID\0\0\0", vec![9; 16]),
        (b"#Blob\0\0\0", blobs),
    ];
    let mut out = b"BSJB\x01\0\x01\0\0\0\0\0\x0c\0\0\0PDB v1.0\0\0\0\0".to_vec();
    out.extend([0, 0, streams.len() as u8, 0]);
    let header = |name: &[u8]| 8 + name.len().next_multiple_of(4);
    let mut at = out.len() + streams.iter().map(|(name, _)| header(name)).sum::<usize>();
    for (name, bytes) in &streams {
        out.extend((at as u32).to_le_bytes());
        out.extend((bytes.len().next_multiple_of(4) as u32).to_le_bytes());
        out.extend(*name);
        out.resize(out.len().next_multiple_of(4), 0);
        at += bytes.len().next_multiple_of(4);
    }
    for (_, bytes) in &streams {
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

pub(crate) fn layouts() -> Vec<Vec<u8>> {
    let tables = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/coremap-read/src/layout/tables");
    let files = std::fs::read_dir(tables).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
    tables.map(|path| std::fs::read(path).unwrap()).collect()
}

/// As the tools print them.
pub(crate) fn texts() -> Vec<Vec<u8>> {
    let texts = [
        "app 12 [001] 1.000000: cycles:\n\t    7f0e728032b2 [unknown] (/memfd:doublemapper (deleted))\n\t          401000 \
         main+0x10 (/bin/app)\n\napp 12/13 2.5: 10 cycles:u:  7f0e728032b2 [unknown] ([unknown])\n",
        "perf 1 1.0: PERF_RECORD_MMAP2 12/12: [0x400000(0x1000) @ 0x2000 08:01 3 4]: r-xp /bin/app\n",
        "MOST CALLS TO ALLOCATION FUNCTIONS\n10 calls to allocation functions with 5.2M peak consumption from\n  \
         0x7f0e728032b2\n    in ??\n  main\n    at a.c:3\n    in /bin/app\n",
        "[12:00:00] Top 10 stacks with outstanding allocations:\n\t128 bytes in 2 allocations from stack\n\t\t0x00007f0e7\
         28032b2\t[unknown] [app]\n",
        "Thread 2 (LWP 13):\n#0  0x00007f0e728032b2 in ?? ()\n#1  main () at a.c:3\nBacktrace stopped: x\n",
        "app;main;0x7f0e728032b2;[unknown] 12\n",
        "at 0x7f0e728032b2 and 00007f0e`728032b2, 7f0e728032b2.\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Patterns and conditions.
pub(crate) fn arguments() -> Vec<Vec<u8>> {
    let texts = [
        "marker",
        "(?i)lab[a-z]+[.]so|\\w{2,9}(x|y)*",
        "4d 5a ?? 00 [1-9a-f]+",
        "stack.written>1GiB",
        "gcheap.delta>=20.5%",
        "threads.count==17",
        "Größe\u{301}",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
