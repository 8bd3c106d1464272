//! The ELF images of a process by address, including the vdso. The user can attach data to each.

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::addr::{Addr, AddrRange};
use crate::image::elf::{self, ElfImage};
use crate::image::modules::{ModuleKind, page_size};
use crate::phase::Phase;
use crate::process::Process;
use crate::range_map::{RangeMap, Ranged};
use crate::targets::at;

pub(crate) struct PlacedImage<'p, T> {
    pub(crate) elf: Cow<'p, ElfImage>,
    /// Index into [`Process::modules`]. `None` for the vdso.
    pub(crate) module: Option<usize>,
    /// The user's data for this image.
    pub(crate) kept: T,
}

/// All ELF images of a process, indexed by address.
pub(crate) struct PlacedImages<'p, T> {
    images: Vec<PlacedImage<'p, T>>,
    by_address: RangeMap<Placed>,
}

struct Placed {
    range: AddrRange,
    image: usize,
}

impl Ranged for Placed {
    fn range(&self) -> AddrRange {
        self.range
    }
}

impl<'p, T: Default> PlacedImages<'p, T> {
    /// Collects the images of `process`, with default data.
    pub(crate) fn new(process: &'p Process) -> PlacedImages<'p, T> {
        let mut images: Vec<PlacedImage<'p, T>> = Vec::new();
        for (i, module) in process.modules.iter().enumerate() {
            if let ModuleKind::Elf(image) = &module.kind {
                images.push(PlacedImage { elf: Cow::Borrowed(image), module: Some(i), kept: T::default() });
            }
        }
        let _phase = process.enter(Phase::Modules);
        let vdso = process.auxv(at::SYSINFO_EHDR).map(Addr::new);
        if let Some(image) = vdso.and_then(|base| elf::read(&process.memory, base, page_size(process.facts()))) {
            images.push(PlacedImage { elf: Cow::Owned(image), module: None, kept: T::default() });
        }
        let ranges: Vec<(AddrRange, usize)> = images.iter().enumerate().map(|(i, m)| (m.elf.range, i)).collect();
        // Where images overlap, the smaller one wins: it may be in a hole of the larger one.
        let by_address = RangeMap::resolve(
            &ranges,
            |_, &(range, i)| (range, (Reverse(range.len()), Reverse(i))),
            |range, &(_, image)| Placed { range, image },
        );
        PlacedImages { images, by_address }
    }

    pub(crate) fn at(&self, addr: Addr) -> Option<&PlacedImage<'p, T>> {
        self.images.get(self.by_address.at(addr)?.image)
    }

    /// Iterates over the images in the order of the modules, the vdso last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PlacedImage<'p, T>> {
        self.images.iter()
    }
}
