//! Symbols of native code and data: which function or variable contains an address.
//!
//! The dynamic symbols are in memory. Files under `--symbols` that are proven to be the same build add the symbols of
//! .symtab, of .gnu_debugdata and of a debug file. The tables of a module are read when the first address in it is
//! resolved.
//!
//! Structures: System V ABI, symbol table.

mod debug_classes;
mod demangle;
mod dynamic;
mod files;
mod lines;
mod plt;
mod table;
mod tls;

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
use table::{Bytes, Entry, Names, PlacedSym, Source, Strings, Table};

pub use debug_classes::{DebugClass, StaticPlace, debug_classes};
pub use lines::source_lines;
pub use tls::thread_local;

/// Returns the name of a C++ type, as in `std::type_info`, in the form that C++ writes it.
pub(crate) fn type_name(raw: &str) -> String {
    let symbol = format!("_ZTS{raw}");
    let name = demangle::demangle(&symbol);
    let name = name.as_deref().and_then(|name| name.strip_prefix("typeinfo name for "));
    name.map_or_else(|| raw.to_owned(), str::to_owned)
}

/// Name of the kernel's own module, as in /proc/PID/maps.
const VDSO: &str = "[vdso]";

/// Name of the source of dynamic symbols.
const DYNSYM: &str = "dynsym";

/// Returns the symbols that an image exports under names with `prefix`: the rest of each name, and the address.
pub(crate) fn exported_with_prefix(
    memory: &dyn Memory,
    image: &crate::image::elf::ElfImage,
    prefix: &str,
) -> Vec<(String, Addr)> {
    Dynamic::read(memory, image, &Budget::new()).map_or_else(Vec::new, |d| d.with_prefix(memory, image.bias, prefix))
}

/// A symbol, and the offset of an address in it.
///
/// Names are unescaped, as in the process or file. They must pass [`crate::bytes::printable`] before they reach a
/// terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSymbol {
    /// The demangled name. `read@plt` for a stub that jumps to `read`.
    pub name: Arc<str>,
    /// The name in the symbol table, without a version.
    pub raw: Arc<str>,
    /// First address.
    pub start: Addr,
    /// Size in bytes. If the table has no size, the distance over which the symbol is assumed to extend.
    pub size: u64,
    /// Whether the size is from the table.
    pub sized: bool,
    /// Bytes from `start` to the resolved address.
    pub offset: u64,
    /// Index into [`Process::modules`]. `None` for the vdso.
    pub module: Option<usize>,
    /// The table with the symbol: `dynsym`, `symtab`, `gnu_debugdata`, `debug file`, `plt`.
    pub source: &'static str,
}

/// How much of symbol tables may still be read, over all modules.
struct Budget {
    entries: AtomicUsize,
    unpacked: AtomicUsize,
}

impl Budget {
    fn new() -> Budget {
        Budget { entries: AtomicUsize::new(limits::MAX_SYMBOLS), unpacked: AtomicUsize::new(limits::MAX_ALL_DEBUGDATA) }
    }

    /// Takes `wanted` entries from the budget, or as many as are left.
    fn take(&self, wanted: u64) -> u64 {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let taken = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(wanted)));
        let had = taken.unwrap_or_else(|n| n);
        wanted.min(had) as u64
    }

    fn unpack_limit(&self) -> usize {
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

#[derive(Default)]
struct ImageSymbols {
    sources: Vec<Source>,
    code: Table,
    data: Table,
    /// Ranges that may contain code.
    parts: Vec<AddrRange>,
    /// Ranges of PLT stubs. `None` without a section table.
    stubs: Option<Vec<AddrRange>>,
    /// The dynamic symbol table, which has the names of stubs. `None` if it cannot be read.
    dynamic: Option<Dynamic>,
    slots: OnceLock<Slots>,
}

/// Symbols of all native code and data of a process. Several threads may use it at once.
pub struct NativeSymbols<'a> {
    process: &'a Process,
    images: PlacedImages<'a, OnceLock<ImageSymbols>>,
    budget: Budget,
}

impl<'a> NativeSymbols<'a> {
    /// Makes a resolver for `process`. It reads no table yet.
    pub fn new(process: &'a Process) -> NativeSymbols<'a> {
        NativeSymbols { process, images: PlacedImages::new(process), budget: Budget::new() }
    }

    /// Returns the function that contains `addr`, or the stub that jumps to one.
    ///
    /// An address past the end of a symbol with a size belongs to no symbol, so the result is `None` between functions.
    /// For a return address, pass the address minus one: a call that never returns may be a function's last
    /// instruction.
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

    /// Returns the variable or other object that contains `addr`. Thread-local variables (TLS) have no fixed address
    /// and are not included.
    pub fn resolve_data(&self, addr: Addr) -> Option<NativeSymbol> {
        let image = self.images.at(addr)?;
        let symbols = self.symbols(image);
        self.symbol(image, symbols, symbols.data.at(addr)?, addr)
    }

    /// Returns the variables and other objects of a module ([`Process::modules`]) whose name begins with `prefix`, with
    /// the rest of the name.
    pub fn data_with_prefix(&self, module: usize, prefix: &str) -> Vec<(Addr, String)> {
        let Some(image) = self.images.iter().find(|image| image.module == Some(module)) else { return Vec::new() };
        let symbols = self.symbols(image);
        let named = symbols.data.entries().filter_map(|entry| {
            let names = entry.names(&symbols.sources, &self.process.memory)?;
            Some((entry.start, names.raw.strip_prefix(prefix)?.to_owned()))
        });
        named.collect()
    }

    /// Returns the name of a symbol's module: `libc.so.6`, `[vdso]`.
    pub fn module_name(&self, symbol: &NativeSymbol) -> &'a str {
        let module = symbol.module.and_then(|i| self.process.modules.get(i));
        module.map_or(VDSO, |m| m.name())
    }

    /// How many names of code and of data are known in a module
    /// ([`Process::modules`]), or in the vdso; reads its tables.
    #[doc(hidden)]
    pub fn count(&self, module: Option<usize>) -> (usize, usize) {
        let image = self.images.iter().find(|image| image.module == module);
        let symbols = image.map(|image| self.symbols(image));
        symbols.map_or((0, 0), |s| (s.code.len(), s.data.len()))
    }

    /// Returns the start of each code and data symbol of images that begin below `end`, in no order.
    pub fn starts_below(&self, end: Addr) -> Vec<Addr> {
        let images = self.images.iter().filter(|image| image.elf.range.start < end);
        let tables = images.map(|image| self.symbols(image));
        tables.flat_map(|symbols| symbols.code.starts().chain(symbols.data.starts())).collect()
    }

    /// Returns the names of the dynamic symbols, with imports. `is_one` selects the images by their first address.
    pub fn dynamic_names(&self, is_one: impl Fn(Addr) -> bool) -> Vec<String> {
        let images = self.images.iter().filter(|image| is_one(image.elf.range.start));
        let tables = images.filter_map(|image| self.symbols(image).dynamic.as_ref());
        tables.flat_map(|dynamic| dynamic.names(&self.process.memory, &self.budget)).collect()
    }

    /// Reads the tables of all images, including stubs. A copy of what was read can then name any address.
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
        let mut found: Vec<PlacedSym> = Vec::new();
        if let Some(dynamic) = Dynamic::read(memory, elf, budget) {
            found = dynamic.entries(memory, elf.bias, 0, budget);
            out.sources.push(Source { text: DYNSYM, strings: Strings::Memory(dynamic.strings) });
            out.dynamic = Some(dynamic);
        }
        let files = out.add_files(process, image, &mut found, budget);
        let (mut parts, mut unsized_limit) = (Vec::new(), u64::MAX);
        for file in &files {
            parts = file.code(elf.bias);
            if !parts.is_empty() {
                out.stubs = Some(file.stubs(elf.bias));
                break;
            }
        }
        if parts.is_empty() {
            parts = union(elf.segments.iter().filter(|s| s.perms.exec).map(|s| s.range).collect());
            unsized_limit = limits::MAX_UNSIZED_SYMBOL;
        }
        // The dynamic symbols are only the exported ones, and unexported functions are between them. So a symbol
        // without a size covers only its first byte. Otherwise musl's memset would name all of its system calls.
        if out.sources.iter().all(|s| s.text == DYNSYM) {
            unsized_limit = 1;
        }
        let (data, code) = found.into_iter().partition(|symbol| symbol.is_data(&parts));
        out.code = Table::build(code, &parts, unsized_limit, &out.sources, memory);
        out.parts = parts;
        let all = union(elf.segments.iter().map(|s| s.range).collect());
        // A variable without a size covers only its first byte.
        out.data = Table::build(data, &all, 1, &out.sources, memory);
        tracing::debug!(at = %elf.range, code = out.code.len(), data = out.data.len(), "symbols");
        out
    }

    /// Adds symbols of files under `--symbols` and of the mapped file. Returns the files, the one with the most
    /// complete sections first.
    fn add_files(
        &mut self,
        process: &Process,
        image: &Image<'_>,
        found: &mut Vec<PlacedSym>,
        budget: &Budget,
    ) -> Vec<File> {
        let Some(module) = image.module.and_then(|i| process.modules.get(i)) else { return Vec::new() };
        let open = |map| File::open(Bytes::File(Arc::new(map)));
        let own = File::richest(identity::files_of(process.target(), module, &process.symbols).filter_map(open));
        let debug = File::richest(identity::debug_files_of(module, &process.symbols).filter_map(open));
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
        // Its symbols are a subset of .symtab.
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
