//! The doors: each takes any bytes and tells whether it made sense of them.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::FileExt;

use coremap::addr::{Addr, AddrRange};
use coremap::commands::{self, Condition, RegionOptions, Scope};
use coremap::core::elf::{pieces, read_headers};
use coremap::core::inflate::to_temporary_file;
use coremap::core::notes as core_notes;
use coremap::diag::Diagnostics;
use coremap::image::metadata::{Metadata, Table, Token};
use coremap::image::pdb::{Pdb, PdbReference};
use coremap::image::{elf as image_elf, pe as image_pe};
use coremap::internals;
use coremap::layout::{Layout, read_descriptor};
use coremap::memory::{Fault, FaultKind, Memory};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::runtimes::coreclr::CodeAt;
use coremap::search::{Encoding, Pattern, PatternOptions};
use coremap::session::Session;
use coremap::symbolicate::{self, Cost, Format, Kind, Namer, Resolved};
use coremap::targets::Arch;
use coremap::targets::Reads;

use crate::support::{Rng, real};

/// Bytes that are mapped at one place, which is not 0.
struct Mapped<'b>(&'b [u8]);

const BASE: Addr = Addr::new(0x7f00_0000_0000);

impl Memory for Mapped<'_> {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        let fault = Fault { addr, kind: FaultKind::Unmapped };
        let from = addr.get().checked_sub(BASE.get()).ok_or(fault)? as usize;
        let end = from.checked_add(buf.len()).ok_or(fault)?;
        buf.copy_from_slice(self.0.get(from..end).ok_or(fault)?);
        Ok(())
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        let from = addr.get().wrapping_sub(BASE.get());
        (self.0.len() as u64).saturating_sub(from).min(max)
    }
}

/// All of a core.
pub(crate) fn core(bytes: &[u8]) -> bool {
    let diag = Diagnostics::default();
    if let Ok(headers) = read_headers(bytes, &Reads::default(), &diag) {
        drop(pieces(&headers.segments, &diag));
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let silent = Progress::silent();
    let Ok(process) = Process::open(file.path(), &Options::default(), &silent) else { return false };
    let session = Session::new(&process);
    let sum = commands::summary(&session, true, &silent);
    assert_eq!((sum.total.size, sum.total.in_core), (sum.base.size, sum.base.in_core));
    drop(commands::info(&session, true));
    drop(commands::regions(&session, &RegionOptions::default(), &Progress::silent()));
    true
}

pub(crate) fn notes(bytes: &[u8]) -> bool {
    [Arch::X86_64, Arch::Aarch64].into_iter().any(|arch| {
        let diag = Diagnostics::default();
        let parts = [(0, bytes.len() as u64 / 2), (0, bytes.len() as u64), (3, u64::MAX)];
        let notes = core_notes::read(bytes, &parts[1..2], arch, &Reads::default(), &diag);
        drop(core_notes::read(bytes, &parts, arch, &Reads::default(), &diag));
        !notes.threads.is_empty()
    })
}

pub(crate) fn unpack(bytes: &[u8]) -> bool {
    let Ok(out) = to_temporary_file(bytes, None, Some(64 << 20), |_| true, &Progress::silent()) else { return false };
    let len = out.file.metadata().unwrap().len();
    assert!(out.holes.iter().all(|hole| hole.start < hole.end && hole.end <= len), "{:?} of {len}", out.holes);
    out.broken.is_none() && len > 0
}

pub(crate) fn elf(bytes: &[u8]) -> bool {
    let memory = Mapped(bytes);
    drop((image_elf::file_build_id(bytes), image_elf::file_sections(bytes, 0x1000)));
    let Some(image) = image_elf::read(&memory, BASE, 4096) else { return false };
    drop((image_elf::soname(&memory, &image), image.writable_parts(&memory)));
    if let Some(dynamic) = image.dynamic {
        drop((image_elf::link_map(&memory, dynamic), image_elf::dynamic_entry(&memory, dynamic, 5)));
    }
    // A list that the bytes themselves are, wherever they say that it goes on.
    drop(image_elf::link_map(&memory, AddrRange::sized(BASE, bytes.len() as u64)));
    true
}

pub(crate) fn pe(bytes: &[u8]) -> bool {
    let memory = Mapped(bytes);
    let Some(image) = image_pe::read(&memory, BASE) else { return false };
    for flat in [false, true] {
        drop(image.placed(BASE, flat));
        drop((0..20).map(|i| image.directory(i)).collect::<Vec<_>>());
        let _ = [0, 0x2000, u32::MAX].map(|rva| image.rva_to_addr(BASE, rva, flat));
        if let Some(reference) = PdbReference::read(&memory, BASE, &image, flat) {
            drop((reference.name().to_owned(), reference.embedded_pdb(&memory)));
        }
    }
    true
}

pub(crate) fn metadata(bytes: &[u8], rng: &mut Rng) -> bool {
    let Ok(data) = Metadata::parse(bytes) else { return false };
    let rids = |table: Table, rng: &mut Rng| {
        let count = data.row_count(table);
        let mut rids: Vec<u32> = (0..8).map(|_| rng.below(u64::from(count) + 2) as u32).collect();
        rids.extend([0, 1, count, count.wrapping_add(1), u32::MAX, 0x00ff_ffff]);
        rids
    };
    drop((data.module().map(|m| m.mvid), data.assembly().map(|a| a.name.into_owned())));
    for number in 0..=0x37 {
        let Some(table) = Table::from_number(number) else { continue };
        for rid in rids(table, rng) {
            let cells: Vec<_> = (0..table.columns().len() + 1).map(|i| data.cell(table, rid, i)).collect();
            let token = Token::new(table, rid & 0x00ff_ffff);
            drop((cells, data.full_name(token), data.constant(token).is_some(), data.has_attribute(token, "X")));
        }
    }
    for rid in rids(Table::TypeDef, rng) {
        let _ = data.enclosing(rid);
        if let Some(def) = data.type_def(rid) {
            let _ = data.field_rids(def.fields.clone()).chain(data.method_rids(def.methods.clone())).take(1000).count();
        }
    }
    for rid in rids(Table::MethodDef, rng) {
        drop((data.type_of_method(rid), data.method_def(rid).map(|m| m.name.into_owned())));
    }
    for offset in [0, 1, rng.below(bytes.len() as u64 + 9) as u32, u32::MAX] {
        drop((data.string(offset), data.blob(offset), data.guid(offset)));
    }
    true
}

pub(crate) fn pdb(bytes: &[u8]) -> bool {
    let Ok(pdb) = Pdb::open(bytes.to_vec()) else { return false };
    let methods = (0..4).chain([u32::MAX]);
    methods.flat_map(|rid| [0, 1, 5, u32::MAX].map(|il| pdb.line(rid, il))).flatten().count() > 0
}

/// The JSON, and a descriptor in memory that leads to it.
pub(crate) fn layout(bytes: &[u8]) -> bool {
    let mut descriptor = b"DNCCDAC\0\x01\0\0\0".to_vec();
    descriptor.extend((bytes.len() as u32).to_le_bytes());
    descriptor.extend((BASE.get() + 40).to_le_bytes());
    descriptor.extend(4u64.to_le_bytes());
    descriptor.extend(BASE.get().to_le_bytes());
    descriptor.extend(bytes);
    let read = read_descriptor(&Mapped(&descriptor), BASE).is_ok();
    drop(read_descriptor(&Mapped(bytes), BASE));
    let Ok(mut layout) = Layout::parse(&String::from_utf8_lossy(bytes)) else { return read };
    let _ = (layout.size("Thread").ok(), layout.field("Thread", "m_ThreadId").ok(), layout.value("x"));
    let over = layout.clone();
    layout.overlay(&over);
    true
}

/// Names two addresses of three.
struct Thirds;

impl Namer for Thirds {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        let symbol = format!("Lab.Work<T;1>.Run\u{1b}{:x}", ip.get() & 0xff);
        (!ip.get().is_multiple_of(3)).then_some(Resolved {
            symbol,
            offset: Some(ip.get()),
            kind: Kind::Managed,
            ..Resolved::default()
        })
    }
}

/// No line is lost or gained, whatever names there are.
pub(crate) fn text(bytes: &[u8], rng: &mut Rng) {
    let formats =
        [Format::Perf, Format::Heaptrack, Format::Memleak, Format::Gdb, Format::Folded, Format::Plain].map(Some);
    let format = formats.get(rng.below(8) as usize).copied().flatten();
    let options = symbolicate::Options { format, pid: (rng.below(2) == 0).then_some(12), cost: Cost::Calls };
    let mut out = Vec::new();
    symbolicate::rewrite(&mut &bytes[..], &mut out, &Thirds, &[], &options).unwrap();
    assert_eq!(memchr::memchr_iter(b'\n', &out).count(), memchr::memchr_iter(b'\n', bytes).count());
    drop(symbolicate::fold(&mut &bytes[..], &mut Vec::new(), &Thirds, &[], &options));
}

pub(crate) fn argument(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (regex, hex) in [(false, false), (true, false), (false, true)] {
        let options = PatternOptions { ignore_case: true, regex, hex, encoding: Encoding::Both };
        if let Ok(pattern) = Pattern::new(&text, options) {
            drop(pattern.note().map(str::to_owned));
        }
    }
    drop(Condition::parse(&text, Scope::Summary));
    drop(Condition::parse(&text, Scope::Diff));
    let safe = coremap::bytes::printable(&text);
    assert!(!safe.chars().any(coremap::bytes::is_harmful), "{safe}");
}

/// A .NET core in a file of its own, some pages of which are damaged.
pub(crate) struct GcInfo {
    file: tempfile::NamedTempFile,
    methods: Vec<Addr>,
    /// Pages of the file that are read for GC info: where, and what is there.
    pages: Vec<(u64, Vec<u8>)>,
}

impl GcInfo {
    pub(crate) fn of(name: &str) -> GcInfo {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes = real::bytes(name);
        file.write_all(&bytes).unwrap();
        let options = Options { record: true, ..Options::default() };
        let process = Process::open(file.path(), &options, &Progress::silent()).unwrap();
        let session = Session::new(&process);
        drop(commands::threads(&session, commands::ThreadOptions::default()));
        let of_code = internals::coreclr(&session).unwrap().methods();
        let ips = process.threads().iter().map(|t| t.registers.ip());
        let words = real_ips(&process);
        let starts = ips.chain(words).filter_map(|ip| match of_code.at(ip) {
            Some(CodeAt::Method(method)) => Some(method.start),
            _ => None,
        });
        let methods: Vec<Addr> = starts.collect::<BTreeSet<_>>().into_iter().take(60).collect();
        let before: BTreeSet<Addr> = pages(&process);
        for start in &methods {
            drop(of_code.gc_info_facts(*start));
        }
        let all = pages(&process);
        let read: Vec<Addr> = all.difference(&before).copied().collect();
        // What was read before holds some of it too.
        let read = if read.is_empty() { all.into_iter().collect() } else { read };
        let offsets = read.iter().flat_map(|&page| process.target().dumped_runs(AddrRange::sized(page, 4096)));
        let pages = offsets.map(|run| (run.offset, run.bytes.to_vec())).collect();
        GcInfo { file, methods, pages }
    }

    /// How many methods' GC info makes sense.
    pub(crate) fn read(&self) -> u64 {
        let Ok(process) = Process::open(self.file.path(), &Options::default(), &Progress::silent()) else { return 0 };
        let session = Session::new(&process);
        let Some(of_code) = internals::coreclr(&session).map(|runtime| runtime.methods()) else {
            return 0;
        };
        self.methods.iter().filter(|&&start| of_code.gc_info_facts(start).is_ok()).count() as u64
    }

    pub(crate) fn damage(&mut self, rng: &mut Rng) {
        for _ in 0..=rng.below(64) {
            let (offset, bytes) = &self.pages[rng.below(self.pages.len() as u64) as usize];
            let at = rng.below(bytes.len() as u64) as usize;
            let end = (at + (1 << rng.below(9))).min(bytes.len());
            let noise = rng.below(2) == 0;
            let fill = [0, 0xff, 0x55][rng.below(3) as usize];
            let new: Vec<u8> = (at..end).map(|_| if noise { rng.next() as u8 } else { fill }).collect();
            self.file.as_file().write_all_at(&new, offset + at as u64).unwrap();
        }
    }

    pub(crate) fn mend(&mut self) {
        for (offset, bytes) in &self.pages {
            self.file.as_file().write_all_at(bytes, *offset).unwrap();
        }
    }
}

fn pages(process: &Process) -> BTreeSet<Addr> {
    let each = |range: AddrRange| (range.start.get()..range.end.get()).step_by(4096).map(|at| Addr::new(at & !4095));
    process.reads().ranges().into_iter().flat_map(each).collect()
}

/// Return addresses: words of the stacks.
fn real_ips(process: &Process) -> Vec<Addr> {
    let mut out = Vec::new();
    for thread in process.threads() {
        let sp = thread.registers.sp();
        let len = process.memory.readable(sp, 32 << 10) as usize;
        let Ok(bytes) = process.memory.bytes(sp, len) else { continue };
        out.extend(bytes.chunks_exact(8).map(|w| Addr::new(u64::from_le_bytes(w.try_into().unwrap()))));
    }
    out
}
