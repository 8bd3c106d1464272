//! Sections of a module, from its ReadyToRun header.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::bytes::u32_at;
use crate::image::ModuleKind;
use crate::limits;
use crate::runtimes::nativeaot::runtime::Runtime;

/// ReadyToRunHeaderConstants::Signature.
const SIGNATURE: &[u8; 4] = b"RTR\0";

/// Maximum plausible major version.
const MAX_MAJOR: u16 = 99;

/// Address ranges of a module's sections, by section id.
pub(in crate::runtimes::nativeaot) struct Sections(HashMap<u32, AddrRange>);

impl Sections {
    /// Finds the sections of the runtime's module. `None` if its header is not in the core.
    pub(in crate::runtimes::nativeaot) fn find(runtime: &Runtime<'_>) -> Option<Sections> {
        let module = runtime.process.modules.get(runtime.module)?;
        let ModuleKind::Elf(image) = &module.kind else { return None };
        let finder = memchr::memmem::Finder::new(SIGNATURE);
        for part in image.writable_parts(runtime.memory()) {
            let Ok(bytes) = runtime.memory().look(part.start, part.len() as usize) else { continue };
            for i in finder.find_iter(&bytes) {
                let at = part.start.saturating_add(i as u64);
                if at.is_aligned(4)
                    && let Some(found) = read(runtime, image.range, at)
                {
                    runtime.memory().keep(at, SIGNATURE.len() as u64);
                    return Some(found);
                }
            }
        }
        None
    }

    /// Range of a section, by its name in the layout.
    pub(in crate::runtimes::nativeaot) fn section_range(&self, runtime: &Runtime<'_>, name: &str) -> Option<AddrRange> {
        let id = runtime.layout.constant("ReadyToRunSection", name).ok()?;
        self.0.get(&u32::try_from(id).ok()?).copied()
    }

    /// Start and bytes of a section.
    pub(in crate::runtimes::nativeaot) fn bytes(&self, runtime: &Runtime<'_>, name: &str) -> Option<(Addr, Vec<u8>)> {
        let range = self.section_range(runtime, name).filter(|range| range.len() <= limits::MAX_AOT_SECTION)?;
        Some((range.start, runtime.memory().bytes(range.start, range.len() as usize).ok()?))
    }
}

/// Reads the header at `at`. Its rows must have ascending ids and ranges within the module.
fn read(runtime: &Runtime<'_>, image: AddrRange, at: Addr) -> Option<Sections> {
    let view = runtime.view("ReadyToRunHeader", at);
    let rows = at.checked_add(runtime.layout.size("ReadyToRunHeader").ok()?)?;
    let (size, count) = (u64::from(view.u8("EntrySize").ok()?), u64::from(view.u16("NumberOfSections").ok()?));
    let major = view.u16("MajorVersion").ok()?;
    let sane = (1..=MAX_MAJOR).contains(&major) && (1..=limits::MAX_AOT_SECTIONS).contains(&count);
    // Up to 10.0 a row has an end, from 11.0 on a length. These rows differ in size.
    let form = ["ModuleInfoRow", "SizedModuleInfoRow"].into_iter().find(|form| runtime.layout.size(form) == Ok(size));
    let form = form.filter(|_| sane)?;
    let mut out = HashMap::new();
    let mut last = None;
    for i in 0..count {
        let row = runtime.view(form, rows.checked_add(i.checked_mul(size)?)?);
        let (id, start) = (row.u32("SectionId").ok()?, row.ptr("Start").ok()?);
        let end = if row.has("Length") {
            start.checked_add(u64::from(row.u32("Length").ok()?))?
        } else {
            row.ptr("End").ok()?
        };
        if last.is_some_and(|last| id <= last) || !image.contains(start) || end > image.end {
            return None;
        }
        last = Some(id);
        // A row without an end represents a single address.
        if end >= start {
            out.insert(id, AddrRange::new(start, end));
        } else {
            out.insert(id, AddrRange::new(start, start));
        }
    }
    tracing::debug!(%at, major, minor = view.u16("MinorVersion").ok(), sections = out.len(), "module header");
    Some(Sections(out))
}

/// Target of the relative pointer at `offset` in `bytes`, which start at address `at`.
pub(in crate::runtimes::nativeaot) fn relative(at: Addr, bytes: &[u8], offset: usize) -> Option<Addr> {
    let distance = u32_at(bytes, offset)? as i32;
    at.checked_add(offset as u64)?.checked_offset(i64::from(distance))
}
