//! Names of native code and data: which function an address lies in.
//!
//! The dynamic symbols are in memory. Files under `--symbols` that are proven to
//! be the same build add those of .symtab, of .gnu_debugdata and of a debug file.
//! The tables of a module are read when an address of it is first asked for.
//!
//! Structures: System V ABI, symbol table.

mod demangle;
mod dynamic;
mod files;
mod plt;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use goblin::elf::section_header as sh;

use crate::addr::{Addr, AddrRange, union};
use crate::diag::WarningCode;
use crate::image::identity;
use crate::limits;
use crate::memory::Memory;
use crate::native::placed::{PlacedImage, PlacedImages};
use crate::process::Process;
use dynamic::Dynamic;
use files::File;
use plt::{Slots, Target};
use table::{Bytes, Entry, Found, Names, Source, Strings, Table};

/// What the kernel's own module is called, as in /proc/PID/maps.
const VDSO: &str = "[vdso]";

/// Symbols for the dynamic linker.
const DYNSYM: &str = "dynsym";

/// A symbol, and where in it an address lies.
///
/// Names are as the process or the file has them: they pass
/// [`crate::bytes::printable`] before they reach a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSymbol {
    /// Its name, demangled; `read@plt` for a stub that jumps to `read`.
    pub name: Arc<str>,
    /// Its name as it stands in the table, without a version.
    pub raw: Arc<str>,
    /// Its first address.
    pub start: Addr,
    /// Its size; where the table gives none, how far it is believed to reach.
    pub size: u64,
    /// Whether the table gives its size.
    pub sized: bool,
    /// Bytes from its start to the address that was asked for.
    pub offset: u64,
    /// Index into [`Process::modules`]; `None` for the vdso.
    pub module: Option<usize>,
    /// The table it is from: `dynsym`, `symtab`, `gnu_debugdata`, `debug file`,
    /// `plt`.
    pub source: &'static str,
}

/// What may still be read of tables, in all modules together.
struct Budget {
    entries: AtomicUsize,
    unpacked: AtomicUsize,
}

impl Budget {
    fn new() -> Budget {
        Budget { entries: AtomicUsize::new(limits::MAX_SYMBOLS), unpacked: AtomicUsize::new(limits::MAX_ALL_DEBUGDATA) }
    }

    /// Take `wanted` entries, or as many as there are left.
    fn take(&self, wanted: u64) -> u64 {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let taken = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(wanted)));
        let had = taken.unwrap_or_else(|n| n);
        wanted.min(had) as u64
    }

    fn unpack_at_most(&self) -> usize {
        self.unpacked.load(Ordering::Relaxed).min(limits::MAX_DEBUGDATA)
    }

    fn unpacked(&self, bytes: usize) {
        let take = |n: usize| Some(n.saturating_sub(bytes));
        let _ = self.unpacked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    }

    fn is_spent(&self) -> bool {
        self.entries.load(Ordering::Relaxed) == 0 || self.unpacked.load(Ordering::Relaxed) == 0
    }
}

type Image<'a> = PlacedImage<'a, OnceLock<ImageSymbols>>;

/// What is known of one image's symbols.
#[derive(Default)]
struct ImageSymbols {
    sources: Vec<Source>,
    code: Table,
    data: Table,
    /// Where code may be.
    parts: Vec<AddrRange>,
    /// Where stubs are, if a section table says so.
    stubs: Option<Vec<AddrRange>>,
    /// Its dynamic table, where it can be read: stubs have their names from it.
    dynamic: Option<Dynamic>,
    slots: OnceLock<Slots>,
}

/// Names of all native code and data of a process; can be asked by many threads.
pub struct NativeSymbols<'a> {
    process: &'a Process,
    images: PlacedImages<'a, OnceLock<ImageSymbols>>,
    budget: Budget,
}

impl<'a> NativeSymbols<'a> {
    /// Ready to be asked; reads no table yet.
    pub fn new(process: &'a Process) -> NativeSymbols<'a> {
        NativeSymbols { process, images: PlacedImages::new(process), budget: Budget::new() }
    }

    /// The function that holds `addr`, or the stub that jumps to one.
    ///
    /// `None` between functions, too: an address past the end of a symbol with a
    /// size belongs to no symbol. So ask for a return address minus one: a call
    /// that never returns may be a function's last instruction.
    pub fn resolve(&self, addr: Addr) -> Option<NativeSymbol> {
        let image = self.images.at(addr)?;
        let symbols = self.symbols(image);
        let entry = symbols.code.at(addr);
        if let Some(entry) = entry.filter(|e| e.sized) {
            return self.symbol(image, symbols, entry, addr);
        }
        let stub = || self.stub(image, symbols, addr);
        stub().or_else(|| self.symbol(image, symbols, entry?, addr))
    }

    /// The variable or other object that holds `addr`; those of threads (TLS)
    /// have no address of their own and are left out.
    pub fn resolve_data(&self, addr: Addr) -> Option<NativeSymbol> {
        let image = self.images.at(addr)?;
        let symbols = self.symbols(image);
        self.symbol(image, symbols, symbols.data.at(addr)?, addr)
    }

    /// The name of the module that a symbol is in: `libc.so.6`, `[vdso]`.
    pub fn module_name(&self, symbol: &NativeSymbol) -> &'a str {
        let module = symbol.module.and_then(|i| self.process.modules.get(i));
        module.map_or(VDSO, |m| m.name())
    }

    /// How many names of code and of data are known in a module
    /// ([`Process::modules`]), or in the vdso; reads its tables.
    #[cfg(feature = "internals")]
    pub fn count(&self, module: Option<usize>) -> (usize, usize) {
        let image = self.images.iter().find(|image| image.module == module);
        let symbols = image.map(|image| self.symbols(image));
        symbols.map_or((0, 0), |s| (s.code.len(), s.data.len()))
    }

    /// Where code and data with a name begin, of images that begin below `end`: in no order.
    pub(crate) fn starts_below(&self, end: Addr) -> Vec<Addr> {
        let images = self.images.iter().filter(|image| image.elf.range.start < end);
        let tables = images.map(|image| self.symbols(image));
        tables.flat_map(|symbols| symbols.code.starts().chain(symbols.data.starts())).collect()
    }

    /// Names of the dynamic symbols, imports too, of those images that `is_one` holds of by their first address.
    pub(crate) fn dynamic_names(&self, is_one: impl Fn(Addr) -> bool) -> Vec<String> {
        let images = self.images.iter().filter(|image| is_one(image.elf.range.start));
        let tables = images.filter_map(|image| self.symbols(image).dynamic.as_ref());
        tables.flat_map(|dynamic| dynamic.names(&self.process.memory, &self.budget)).collect()
    }

    /// Read the tables of all images, those of stubs too: whoever copies what was read has what names any address.
    pub fn read_all(&self) {
        for image in self.images.iter() {
            self.slots(image, self.symbols(image));
        }
    }

    fn slots<'s>(&self, image: &Image<'_>, symbols: &'s ImageSymbols) -> &'s Slots {
        let read = || Slots::read(&self.process.memory, &image.elf, self.process.arch(), &self.budget);
        symbols.slots.get_or_init(read)
    }

    fn symbols<'s>(&'s self, image: &'s Image<'a>) -> &'s ImageSymbols {
        image.kept.get_or_init(|| {
            let symbols = ImageSymbols::read(self.process, image, &self.budget);
            if self.budget.is_spent() {
                let text = format!("more than {} symbols; some modules lack function names", limits::MAX_SYMBOLS);
                self.process.diag.note(WarningCode::Limit, text);
            }
            symbols
        })
    }

    fn symbol(&self, image: &Image<'_>, symbols: &ImageSymbols, entry: &Entry, addr: Addr) -> Option<NativeSymbol> {
        let names = entry.names(&symbols.sources, &self.process.memory)?;
        Some(NativeSymbol {
            name: names.name.clone(),
            raw: names.raw.clone(),
            start: entry.start,
            size: entry.size,
            sized: entry.sized,
            offset: addr.since(entry.start),
            module: image.module,
            source: symbols.sources.get(usize::from(entry.source))?.text,
        })
    }

    fn stub(&self, image: &Image<'_>, symbols: &ImageSymbols, addr: Addr) -> Option<NativeSymbol> {
        let (memory, arch) = (&self.process.memory, self.process.arch());
        let inside = |parts: &[AddrRange]| parts.iter().any(|p| p.contains(addr));
        if !inside(symbols.stubs.as_ref().unwrap_or(&symbols.parts)) {
            return None;
        }
        let stub = self.slots(image, symbols).stub_at(memory, arch, addr)?;
        let names = stub.slot.names.get_or_init(|| symbols.stub_names(memory, stub.slot.target)).as_ref()?;
        Some(NativeSymbol {
            name: names.name.clone(),
            raw: names.raw.clone(),
            start: stub.range.start,
            size: stub.range.len(),
            sized: true,
            offset: addr.since(stub.range.start),
            module: image.module,
            source: "plt",
        })
    }
}

impl ImageSymbols {
    fn read(process: &Process, image: &Image<'_>, budget: &Budget) -> ImageSymbols {
        let (memory, elf) = (&process.memory, &*image.elf);
        let mut out = ImageSymbols::default();
        let mut found: Vec<Found> = Vec::new();
        if let Some(dynamic) = Dynamic::read(memory, elf, budget) {
            found = dynamic.entries(memory, elf.bias, 0, budget);
            out.sources.push(Source { text: DYNSYM, strings: Strings::Memory(dynamic.strings) });
            out.dynamic = Some(dynamic);
        }
        let files = out.add_files(process, image, &mut found, budget);
        let (mut parts, mut unsized_most) = (Vec::new(), u64::MAX);
        for file in &files {
            parts = file.code(elf.bias);
            if !parts.is_empty() {
                out.stubs = Some(file.stubs(elf.bias));
                break;
            }
        }
        if parts.is_empty() {
            parts = union(elf.segments.iter().filter(|s| s.perms.exec).map(|s| s.range).collect());
            unsized_most = limits::MAX_UNSIZED_SYMBOL;
        }
        // The dynamic symbols are those that others link to. Between two of them lie
        // functions without a name here: one without a size is its address and no more
        // (musl's memset would be the name of all its system calls).
        if out.sources.iter().all(|s| s.text == DYNSYM) {
            unsized_most = 1;
        }
        let (data, code) = found.into_iter().partition(Found::is_data);
        out.code = Table::build(code, &parts, unsized_most, &out.sources, memory);
        out.parts = parts;
        let all = union(elf.segments.iter().map(|s| s.range).collect());
        // A variable without a size is its address and no more.
        out.data = Table::build(data, &all, 1, &out.sources, memory);
        tracing::debug!(at = %elf.range, code = out.code.len(), data = out.data.len(), "symbols");
        out
    }

    /// Symbols of files under `--symbols`; the files, the one that knows most of
    /// the sections first.
    fn add_files(
        &mut self,
        process: &Process,
        image: &Image<'_>,
        found: &mut Vec<Found>,
        budget: &Budget,
    ) -> Vec<File> {
        let module = image.module.and_then(|i| process.modules.get(i)).filter(|_| !process.symbols.is_empty());
        let Some(module) = module else { return Vec::new() };
        let open = |map| File::open(Bytes::File(Arc::new(map)));
        let own = identity::file_of(process.target(), module, &process.symbols).and_then(open);
        let debug = identity::debug_file_of(module, &process.symbols).and_then(open);
        let mut take = |file: &File, kind, text| {
            let source = self.sources.len() as u8;
            let Some((from, more)) = file.symbols(kind, text, image.elf.bias, source, budget) else { return false };
            self.sources.push(from);
            found.extend(more);
            true
        };
        if let Some(own) = own.as_ref().filter(|_| self.dynamic.is_none()) {
            take(own, sh::SHT_DYNSYM, DYNSYM);
        }
        let full = [(&own, "symtab"), (&debug, "debug file")]
            .map(|(file, text)| file.as_ref().is_some_and(|file| take(file, sh::SHT_SYMTAB, text)));
        // What it holds is a part of .symtab.
        if full == [false; 2]
            && let Some(small) = own.as_ref().and_then(|own| own.debugdata(budget))
        {
            take(&small, sh::SHT_SYMTAB, "gnu_debugdata");
        }
        own.into_iter().chain(debug).collect()
    }

    fn stub_names(&self, memory: &dyn Memory, target: Target) -> Option<Names> {
        let dynamic = self.dynamic.as_ref()?;
        match target {
            Target::Symbol(index) => {
                let strings = Strings::Memory(dynamic.strings);
                let name = strings.name(memory, dynamic.name_of(memory, index)?)?;
                Some(Names::of(&name, "@plt"))
            }
            Target::Chosen(by) => {
                let chooser = self.code.at(by).filter(|e| e.start == by)?.names(&self.sources, memory)?;
                Some(Names::of(chooser.raw.as_bytes(), "@plt"))
            }
        }
    }
}
