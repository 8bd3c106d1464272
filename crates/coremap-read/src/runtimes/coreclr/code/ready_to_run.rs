//! Precompiled code: the runtime functions of a ReadyToRun image, and which of them start methods.
//!
//! Sources: docs/design/coreclr/botr/readytorun-format.md; src/coreclr/vm: readytoruninfo.h (ReadyToRunInfo),
//! codeman.cpp (ReadyToRunJitManager), hash.h (HashMap, its buckets).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::bytes::u32_at;
use crate::image::metadata::{Table, Token};
use crate::layout::{StructView, ViewError};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::coreclr::code::instances;
use crate::runtimes::coreclr::code::native_format::{NativeArray, unsigned};
use crate::runtimes::coreclr::code::unwind::{FunctionForm, RuntimeFunction, UnwindEntry};
use crate::runtimes::coreclr::runtime::Runtime;

/// "RTR\0" (READYTORUN_SIGNATURE).
const SIGNATURE: u32 = 0x0052_5452;

/// READYTORUN_HEADER: signature, versions, flags, number of sections; then the sections: type, RVA, size.
mod header {
    pub(super) const SECTIONS: u64 = 12;
    pub(super) const FIRST: u64 = 16;
    pub(super) const SECTION_SIZE: u64 = 12;
}

/// ReadyToRunSectionType.
mod section {
    /// The runtime functions of the image.
    pub(super) const RUNTIME_FUNCTIONS: u32 = 102;
    pub(super) const METHOD_DEF_ENTRY_POINTS: u32 = 103;
    pub(super) const DEBUG_INFO: u32 = 105;
    pub(super) const INSTANCE_ENTRY_POINTS: u32 = 109;
}

/// Keys of the runtime's HashMap that mark unused entries.
const EMPTY: u64 = 0;
const DELETED: u64 = 1;

/// Mask of a value. The highest bit of a bucket's first value is set if other entries collided with the bucket.
const VALUE_MASK: u64 = 0x7fff_ffff_ffff_ffff;

/// A precompiled method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct ReadyToRunMethod {
    pub(in crate::runtimes::coreclr) start: Addr,
    /// Bytes up to the end of its last funclet.
    pub(in crate::runtimes::coreclr) size: u64,
    /// Its MethodDesc, if the runtime has prepared the method.
    pub(in crate::runtimes::coreclr) method_desc: Option<Addr>,
    /// Its MethodDef, unless it is an instantiation of a generic method.
    pub(in crate::runtimes::coreclr) token: Option<Token>,
    /// Index of its first runtime function.
    pub(in crate::runtimes::coreclr) index: u32,
    /// Start and size in bytes of its cold part.
    pub(in crate::runtimes::coreclr) cold: Option<(Addr, u64)>,
}

/// A ReadyToRun image.
pub(in crate::runtimes::coreclr) struct ReadyToRun {
    base: Addr,
    functions: Vec<(u32, u32)>,
    /// RVA of each runtime function's unwind data.
    unwind_data: Vec<u32>,
    /// MethodDescs of prepared methods, by entry point.
    prepared: HashMap<Addr, Addr>,
    /// MethodDef rids by runtime function.
    defs: HashMap<u32, u32>,
    /// First runtime functions of instantiations.
    instances: HashSet<u32>,
    /// Pairs of first runtime functions: of a cold part, and of its hot part.
    hot_cold: Vec<(u32, u32)>,
    /// Index into `hot_cold` by hot part.
    cold_at: HashMap<u32, usize>,
    /// RVA and size of the DebugInfo section.
    debug_info: Option<(u32, u32)>,
}

/// Returns the address at which the image with this header is mapped by section. An assembly that was loaded from bytes
/// is in memory twice, flat as in the file and by section. `Module` may point to the flat copy, whose offsets differ.
/// The runtime functions are in the mapped one, at `functions`. `None` if the header has no such section.
fn mapped_base(memory: &dyn Memory, header: Addr, functions: Addr) -> Option<Addr> {
    if memory.u32(header).ok() != Some(SIGNATURE) {
        return None;
    }
    let word = |off: u64| memory.u32(header.saturating_add(off)).ok();
    let count = word(header::SECTIONS)?.min(limits::MAX_R2R_SECTIONS);
    let mut sections = (0..u64::from(count)).map(|i| header::FIRST + i * header::SECTION_SIZE);
    let at = sections.find(|at| word(*at) == Some(section::RUNTIME_FUNCTIONS))?;
    functions.checked_sub(u64::from(word(at + 4)?))
}

impl ReadyToRun {
    /// Reads the image of `module`, loaded at `base`.
    ///
    /// # Errors
    /// If its structures are not in the core.
    pub(in crate::runtimes::coreclr) fn read(
        memory: &dyn Memory,
        runtime: &Runtime,
        module: Addr,
        base: Addr,
    ) -> Result<ReadyToRun, ViewError> {
        let layout = &runtime.layout;
        let mut info = StructView::new(memory, layout, "Module", module).ptr("ReadyToRunInfo")?;
        let own = StructView::new(memory, layout, "ReadyToRunInfo", info).ptr("ReadyToRunHeader")?;
        // A composite image has the code of all its assemblies together.
        if let Ok(composite) = StructView::new(memory, layout, "ReadyToRunInfo", info).ptr("CompositeInfo")
            && !composite.is_null()
        {
            info = composite;
        }
        let view = StructView::new(memory, layout, "ReadyToRunInfo", info);
        let fault = |field| ViewError::fault("ReadyToRunInfo", field);
        let count = view.u32("NumRuntimeFunctions")?.min(limits::MAX_RUNTIME_FUNCTIONS);
        let form = FunctionForm::of(runtime.arch, layout)?;
        let functions_at = view.ptr("RuntimeFunctions")?;
        let header = view.ptr("ReadyToRunHeader").unwrap_or(own);
        let base = mapped_base(memory, header, functions_at).unwrap_or(base);
        let bytes =
            memory.bytes(functions_at, count as usize * form.size() as usize).map_err(fault("RuntimeFunctions"))?;
        let functions: Vec<RuntimeFunction> = form.all(&bytes).collect();
        let unwind_data = functions.iter().map(|f| f.data).collect();
        let functions = extents(memory, &form, base, &functions);
        let hot_cold: Vec<(u32, u32)> = match (view.ptr("HotColdMap"), view.u32("NumHotColdMap")) {
            (Ok(map), Ok(count)) if !map.is_null() => {
                let bytes = memory
                    .bytes(map, count.min(limits::MAX_RUNTIME_FUNCTIONS) as usize * 4)
                    .map_err(fault("HotColdMap"))?;
                bytes.as_chunks::<8>().0.iter().filter_map(|p| Some((u32_at(p, 0)?, u32_at(p, 4)?))).collect()
            }
            _ => Vec::new(),
        };
        let map =
            StructView::new(memory, layout, "HashMap", view.addr_of("EntryPointToMethodDescMap")?).ptr("Buckets")?;
        let prepared = entry_points(memory, runtime, map)?;
        let mut image = ReadyToRun {
            base,
            functions,
            unwind_data,
            prepared,
            defs: HashMap::new(),
            instances: HashSet::new(),
            cold_at: hot_cold.iter().enumerate().map(|(i, p)| (p.1, i)).collect(),
            hot_cold,
            debug_info: None,
        };
        image.read_header(memory, own);
        Ok(image)
    }

    /// Reads the tables of the image. Without them only prepared methods are found.
    fn read_header(&mut self, memory: &dyn Memory, header: Addr) {
        if memory.u32(header).ok() != Some(SIGNATURE) {
            return;
        }
        let word = |off: u64| memory.u32(header.saturating_add(off)).ok();
        let count = word(header::SECTIONS).unwrap_or(0).min(limits::MAX_R2R_SECTIONS);
        let mut seen = HashSet::new();
        for i in 0..u64::from(count) {
            let at = header::FIRST + i * header::SECTION_SIZE;
            let (Some(kind), Some(rva), Some(size)) = (word(at), word(at + 4), word(at + 8)) else { return };
            match kind {
                // Each section type occurs once.
                kind if !seen.insert(kind) => {}
                section::METHOD_DEF_ENTRY_POINTS => self.read_entry_points(memory, rva, size),
                section::INSTANCE_ENTRY_POINTS => self.read_instances(memory, rva, size),
                section::DEBUG_INFO => self.debug_info = Some((rva, size)),
                _ => {}
            }
        }
    }

    /// Reads MethodDefEntryPoints: the first runtime function of each MethodDef.
    fn read_entry_points(&mut self, memory: &dyn Memory, rva: u32, size: u32) {
        let len = (size as usize).min(limits::MAX_R2R_TABLE);
        let Ok(bytes) = memory.bytes(self.base.saturating_add(u64::from(rva)), len) else { return };
        let Some(array) = NativeArray::new(&bytes, 0) else { return };
        for index in 0..array.len().min(limits::MAX_RUNTIME_FUNCTIONS) {
            let Some((id, _)) = array.get(index).and_then(|offset| unsigned(&bytes, offset)) else { continue };
            // If bit 0 is set, fixups follow, and bit 1 belongs to them.
            let function = if id & 1 != 0 { id >> 2 } else { id >> 1 };
            self.defs.insert(function, index + 1);
        }
    }

    /// Reads InstanceEntryPoints: the instantiations of generic methods.
    fn read_instances(&mut self, memory: &dyn Memory, rva: u32, size: u32) {
        let len = (size as usize).min(limits::MAX_R2R_TABLE);
        if let Ok(bytes) = memory.bytes(self.base.saturating_add(u64::from(rva)), len) {
            self.instances = instances::entry_points(&bytes).into_iter().collect();
        }
    }

    /// Address of the debug info of the method whose first runtime function is `index`.
    pub(in crate::runtimes::coreclr) fn debug_info(&self, memory: &dyn Memory, index: u32) -> Option<Addr> {
        let (rva, size) = self.debug_info?;
        let section = self.base.saturating_add(u64::from(rva));
        let len = (size as usize).min(limits::MAX_R2R_TABLE);
        let bytes = match memory.borrow(section, len) {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(memory.bytes(section, len).ok()?),
        };
        let offset = NativeArray::new(&bytes, 0)?.get(index)?;
        let (back, _) = unsigned(&bytes, offset)?;
        // If an earlier blob is equal, there is only the distance back to it.
        let at = if back == 0 { unsigned(&bytes, offset)?.1 } else { offset.checked_sub(back as usize)? };
        Some(section.saturating_add(at as u64))
    }

    /// Number of entries that count towards [`limits::MAX_IMAGE_FUNCTIONS`].
    pub(in crate::runtimes::coreclr) fn weight(&self) -> usize {
        self.functions.len() + self.prepared.len() + self.defs.len() + self.hot_cold.len()
    }

    /// All known methods, by address.
    pub(in crate::runtimes::coreclr) fn methods(&self) -> impl Iterator<Item = ReadyToRunMethod> + '_ {
        (0..self.functions.len()).filter(|&i| self.begins_method(i)).map(|i| self.method_at(i))
    }

    /// Returns the method whose code contains `ip`.
    pub(in crate::runtimes::coreclr) fn method(&self, ip: Addr) -> Option<ReadyToRunMethod> {
        let rva = u32::try_from(ip.checked_since(self.base)?).ok()?;
        let index = self.functions.partition_point(|f| f.0 <= rva).checked_sub(1)?;
        let (_, end) = *self.functions.get(index)?;
        if rva >= end {
            return None;
        }
        let hot = self.hot_of(index as u32).map_or(index, |hot| hot as usize);
        let first = (0..=hot).rev().take(limits::MAX_FUNCLETS as usize).find(|&i| self.begins_method(i))?;
        Some(self.method_at(first))
    }

    /// Returns the function or funclet that contains `ip`, with its unwind data.
    pub(in crate::runtimes::coreclr) fn unwind_entry(&self, ip: Addr) -> Option<UnwindEntry> {
        let rva = u32::try_from(ip.checked_since(self.base)?).ok()?;
        let index = self.functions.partition_point(|f| f.0 <= rva).checked_sub(1)?;
        let &(begin, end) = self.functions.get(index)?;
        let data = *self.unwind_data.get(index)?;
        let address = |rva: u32| self.base.saturating_add(u64::from(rva));
        (rva < end).then(|| UnwindEntry { base: self.base, begin: address(begin), end: address(end), data })
    }

    fn entry(&self, index: usize) -> Option<Addr> {
        self.functions.get(index).map(|f| self.base.saturating_add(u64::from(f.0)))
    }

    /// Whether a runtime function starts a method. Funclets do not.
    fn begins_method(&self, index: usize) -> bool {
        let number = index as u32;
        self.defs.contains_key(&number)
            || self.instances.contains(&number)
            || self.entry(index).is_some_and(|e| self.prepared.contains_key(&e))
    }

    /// First runtime function of the hot part, for a runtime function in a cold part.
    fn hot_of(&self, index: u32) -> Option<u32> {
        let at = self.hot_cold.partition_point(|p| p.0 <= index).checked_sub(1)?;
        self.hot_cold.get(at).map(|p| p.1)
    }

    fn method_at(&self, index: usize) -> ReadyToRunMethod {
        let start = self.entry(index).unwrap_or(self.base);
        let cold_from = self.hot_cold.first().map_or(usize::MAX, |p| p.0 as usize);
        let own = self.functions.iter().enumerate().skip(index + 1).take(limits::MAX_FUNCLETS as usize);
        let last = own.take_while(|(i, _)| *i < cold_from && !self.begins_method(*i)).last().map_or(index, |(i, _)| i);
        let end = self.functions.get(last).map_or(start, |f| self.base.saturating_add(u64::from(f.1)));
        ReadyToRunMethod {
            start,
            size: end.since(start),
            method_desc: self.prepared.get(&start).copied(),
            token: self.defs.get(&(index as u32)).map(|&rid| Token::new(Table::MethodDef, rid)),
            index: index as u32,
            cold: self.cold_of(index as u32),
        }
    }

    fn cold_of(&self, hot: u32) -> Option<(Addr, u64)> {
        let at = *self.cold_at.get(&hot)?;
        let first = self.hot_cold.get(at)?.0 as usize;
        let last = self.hot_cold.get(at + 1).map_or(self.functions.len(), |p| p.0 as usize).checked_sub(1)?;
        let (start, end) = (self.entry(first)?, self.base.saturating_add(u64::from(self.functions.get(last)?.1)));
        Some((start, end.since(start)))
    }
}

/// Start and end of each function. If the end is in unwind data that is not in the core, the function ends where the
/// next one begins. The last one then is empty.
fn extents(memory: &dyn Memory, form: &FunctionForm, base: Addr, functions: &[RuntimeFunction]) -> Vec<(u32, u32)> {
    let next = functions.iter().skip(1).map(|f| Some(f.begin)).chain([None]);
    let extent = |(function, next): (&RuntimeFunction, Option<u32>)| {
        let own = form.end(memory, base, function).ok();
        (function.begin, own.or(next).unwrap_or(function.begin))
    };
    functions.iter().zip(next).map(extent).collect()
}

/// Reads the runtime's HashMap. The first word of the first bucket counts the other buckets. A bucket has four keys,
/// then four values. A value is a pointer shifted right by one.
fn entry_points(memory: &dyn Memory, runtime: &Runtime, buckets: Addr) -> Result<HashMap<Addr, Addr>, ViewError> {
    let layout = &runtime.layout;
    let mut out = HashMap::new();
    if buckets.is_null() {
        return Ok(out);
    }
    let fault = ViewError::fault("HashMap", "Buckets");
    let size = layout.size("Bucket")?.clamp(16, 4096);
    let (keys, values) = (layout.positive("Bucket", "Keys")?, layout.positive("Bucket", "Values")?);
    let Ok(count) = memory.u32(buckets) else { return Ok(out) };
    let count = u64::from(count).min(limits::MAX_PREPARED_BUCKETS).min(limits::MAX_HASH_BYTES / size);
    let slots = values.saturating_sub(keys) / 8;
    let first = buckets.saturating_add(size);
    // A small dump often contains only some of the pages.
    for part in memory.readable_parts(AddrRange::sized(first, count * size), u64::MAX) {
        let skip = part.start.since(first).next_multiple_of(size) - part.start.since(first);
        let bytes = memory.look(part.start, part.len() as usize).map_err(fault)?;
        let aligned = bytes.get(skip as usize..).unwrap_or_default().chunks_exact(size as usize);
        for (bucket, at) in aligned.zip((skip..).step_by(size as usize)) {
            let at = part.start.saturating_add(at);
            for slot in 0..slots {
                let word = |base: u64| crate::bytes::u64_at(bucket, (base + slot * 8) as usize);
                let (Some(key), Some(value)) = (word(keys), word(values)) else { continue };
                if key != EMPTY && key != DELETED {
                    memory.keep(at.saturating_add(keys + slot * 8), 8);
                    memory.keep(at.saturating_add(values + slot * 8), 8);
                    out.insert(Addr::new(key), Addr::new((value & VALUE_MASK) << 1));
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DOTNET_ARM64;
    use crate::memory::{Fault, FaultKind};
    use crate::targets::Arch;

    /// A core without the pages of unwind data.
    struct Nothing;

    impl Memory for Nothing {
        fn read(&self, addr: Addr, _: &mut [u8]) -> Result<(), Fault> {
            Err(Fault { addr, kind: FaultKind::NotDumped })
        }

        fn readable(&self, _: Addr, _: u64) -> u64 {
            0
        }
    }

    /// Bytes at address 0x40_0000.
    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let from = addr.checked_since(Addr::new(0x40_0000)).and_then(|from| usize::try_from(from).ok());
            let bytes = from.and_then(|from| self.0.get(from..from + buf.len()));
            buf.copy_from_slice(bytes.ok_or(Fault { addr, kind: FaultKind::Unmapped })?);
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            let end = Addr::new(0x40_0000).saturating_add(self.0.len() as u64);
            end.checked_since(addr).unwrap_or(0).min(max)
        }
    }

    /// The header is in the copy that is mapped by section, 64 KiB from where the flat one would have it.
    #[test]
    fn the_base_of_an_image_is_that_of_its_functions() {
        let sections = [(101, 0x500, 8), (102, 0x2_1000, 0x60), (103, 0x2_2000, 16)];
        let words = [SIGNATURE, 9, 0, sections.len() as u32].into_iter();
        let words = words.chain(sections.iter().flat_map(|&(kind, rva, size)| [kind, rva, size]));
        let memory = Bytes(words.flat_map(u32::to_le_bytes).collect());
        let header = Addr::new(0x40_0000);
        let functions = Addr::new(0x7f00_0000_0000 + 0x2_1000);
        assert_eq!(mapped_base(&memory, header, functions), Some(Addr::new(0x7f00_0000_0000)));
        assert_eq!(mapped_base(&memory, header, Addr::new(0x1000)), None);
        assert_eq!(mapped_base(&Nothing, header, functions), None);
    }

    #[test]
    fn a_function_whose_end_is_not_in_the_core_ends_where_the_next_begins() -> Result<(), Box<dyn std::error::Error>> {
        let (_, table) = DOTNET_ARM64.iter().next_back().ok_or("no table")?;
        let form = FunctionForm::of(Arch::Aarch64, table.layout()?)?;
        let own = |begin, data| RuntimeFunction { begin, end: None, data };
        // The second has packed data with 3 instructions, and padding after them.
        let functions = [own(0x100, 0x4000), own(0x140, 3 << 2 | 1), own(0x180, 0x4010)];
        assert_eq!(extents(&Nothing, &form, Addr::NULL, &functions), [(0x100, 0x140), (0x140, 0x14c), (0x180, 0x180)]);
        Ok(())
    }
}
