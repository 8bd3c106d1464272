//! Claims of program files: Image and Vdso.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::image::elf::{self, ElfImage, ImageSegment};
use crate::image::modules::{Module, ModuleKind, page_size};
use crate::limits;
use crate::map::{Base, BaseEntry, Claim, Claims, Confidence, Kind, Owner};
use crate::process::Process;
use crate::targets::at;

pub(super) fn claim(process: &Process, base: &Base, claims: &mut Claims) {
    for (i, module) in process.modules.iter().enumerate() {
        if claims.is_full() {
            break;
        }
        let owner = Owner::Module(i as u32);
        match &module.kind {
            ModuleKind::Elf(image) => claim_elf(process, base, module, image, owner, claims),
            ModuleKind::Pe { image, flat } => {
                for &m in &module.mappings {
                    let range = process.files()[m as usize].range;
                    claims.add(image_claim(module, range, owner, Confidence::Exact, pe_part(module, range, *flat)));
                }
                // No file is mapped where a program unpacked it, or loaded it from bytes.
                if module.mappings.is_empty() {
                    for section in &module.sections {
                        let part = section.name.clone();
                        claims.add(image_claim(module, section.range, owner, Confidence::Derived, part));
                    }
                    if *flat {
                        claims.add(image_claim(module, module.range, owner, Confidence::Derived, "flat".into()));
                    }
                }
                if !flat {
                    // Sections are laid out in one reserved range. The space between them belongs to the image too.
                    let base = module.range.start;
                    let whole =
                        AddrRange::sized(base, image.size_of_image.next_multiple_of(page_size(process.facts())));
                    claims.add(image_claim(module, whole, owner, Confidence::Derived, "within SizeOfImage".into()));
                }
            }
            ModuleKind::Bundled => {
                for &m in &module.mappings {
                    let range = process.files()[m as usize].range;
                    claims.add(image_claim(module, range, owner, Confidence::Exact, String::new()));
                }
            }
            ModuleKind::NoHeaders => {
                for &m in &module.mappings {
                    let range = process.files()[m as usize].range;
                    claims.add(image_claim(module, range, owner, Confidence::Heuristic, String::new()));
                }
            }
        }
    }
    claim_vdso(process, base, claims);
}

fn image_claim(module: &Module, range: AddrRange, owner: Owner, confidence: Confidence, part: String) -> Claim {
    let name = if module.path.is_empty() { "(unnamed ELF image)" } else { module.name() };
    let detail = if part.is_empty() { name.to_owned() } else { format!("{name} {part}") };
    Claim { range, kind: Kind::Image, confidence, owner, detail: detail.into(), evidence: module.evidence.clone() }
}

fn claim_elf(process: &Process, base: &Base, module: &Module, image: &ElfImage, owner: Owner, claims: &mut Claims) {
    for segment in &image.segments {
        let (file, bss) = segment_names(segment);
        let relro = module.sections.iter().find(|s| s.name == RELRO).map(|s| s.range);
        let part = |range: &AddrRange| match relro {
            // It ends at a page border, but may begin within a page.
            Some(r) if r.contains(range.start) || (r.end >= range.end && range.contains(r.start)) => RELRO,
            _ => file,
        };
        let file_part = AddrRange::new(segment.range.start, segment.file_end);
        let bss_part = AddrRange::new(segment.file_end, segment.range.end);
        // If NT_FILE names the same file, header and note agree.
        let mut listed = false;
        for e in base.entries.overlapping(file_part) {
            let same = base.path(e).is_some_and(|p| *p == module.path);
            if let Some(range) = e.range.intersect(&file_part).filter(|_| same) {
                listed = true;
                claims.add(image_claim(module, range, owner, Confidence::Exact, part(&range).into()));
            }
        }
        if !listed {
            claims.add(image_claim(module, file_part, owner, Confidence::Derived, file.into()));
        }
        // .bss is anonymous memory with the access of its segment.
        for e in base.entries.overlapping(bss_part) {
            if let Some(range) = e.range.intersect(&bss_part)
                && e.file.is_none()
                && e.perms.is_none_or(|p| p.write == segment.perms.write)
            {
                claims.add(image_claim(module, range, owner, Confidence::Derived, bss.into()));
            }
        }
    }
    for &m in &module.mappings {
        let range = process.files()[m as usize].range;
        claims.add(image_claim(module, range, owner, Confidence::Derived, String::new()));
    }
}

/// The section that PT_GNU_RELRO represents.
const RELRO: &str = ".data.rel.ro";

/// Names of the main sections of a PT_LOAD with this access: of its file part, and of the rest.
fn segment_names(segment: &ImageSegment) -> (&'static str, &'static str) {
    match (segment.perms.write, segment.perms.exec) {
        (true, _) => (".data", ".bss"),
        (false, true) => (".text", ".text"),
        // ELF header, notes, symbols and relocations.
        (false, false) if segment.file_offset == 0 => ("headers", ".rodata"),
        (false, false) => (".rodata", ".rodata"),
    }
}

fn pe_part(module: &Module, range: AddrRange, flat: bool) -> String {
    if flat {
        return "flat".into();
    }
    module
        .sections
        .iter()
        .filter_map(|s| s.range.intersect(&range).map(|common| (common.len(), &s.name)))
        .max()
        .map_or_else(String::new, |(_, name)| name.clone())
}

/// Claims the vdso at its address in the auxiliary vector, the kernel's data pages before it, and the vsyscall page at
/// its fixed address.
fn claim_vdso(process: &Process, base: &Base, claims: &mut Claims) {
    let target = process.target();
    let page = page_size(target.facts());
    let mut add = |range, confidence, detail: &str, evidence: &str| {
        claims.add(Claim {
            range,
            kind: Kind::Vdso,
            confidence,
            owner: Owner::None,
            detail: detail.into(),
            evidence: Arc::from(evidence),
        });
    };
    if let Some(start) = target.facts().auxv(at::SYSINFO_EHDR).map(Addr::new)
        && let Some(mapping) = base.at(start)
    {
        // The kernel maps its whole file, with section headers and symbols after the one segment. A dump that joins
        // mappings may have others after it.
        let image = elf::read(&process.memory, start, page).map(|i| i.range.end);
        let is_own = mapping.range.start == start && mapping.range.len() <= limits::MAX_VDSO;
        let end = image.filter(|_| !is_own).unwrap_or(mapping.range.end).min(mapping.range.end);
        add(AddrRange::new(start, end), Confidence::Exact, "vdso", "AT_SYSINFO_EHDR");
        let is_vvar = |e: &&BaseEntry| {
            let is_read_only = e.perms.is_some_and(|p| !p.write && !p.exec);
            is_read_only && e.file.is_none() && e.range.len() <= limits::MAX_VVAR
        };
        // [vvar], and in newer kernels [vvar_vclock], are directly below.
        let mut top = start;
        for _ in 0..limits::MAX_VVAR_MAPPINGS {
            let below = top.checked_sub(1).and_then(|a| base.at(a)).filter(is_vvar);
            let Some(below) = below.filter(|e| start.since(e.range.start) <= limits::MAX_VVAR) else { break };
            add(below.range, Confidence::Heuristic, "vvar", "a small read-only mapping right below the vdso");
            top = below.range.start;
        }
        // Linux 3.15 and 3.16 put it above.
        let is_readable = |e: &&BaseEntry| e.perms.is_some_and(|p| p.read);
        if let Some(above) = base.at(end).filter(|_| top == start).filter(is_vvar).filter(is_readable) {
            add(above.range, Confidence::Heuristic, "vvar", "a small read-only mapping right above the vdso");
        }
    }
    if let Some(range) = base.at(VSYSCALL).and_then(|e| e.range.intersect(&AddrRange::sized(VSYSCALL, page))) {
        add(range, Confidence::Exact, "vsyscall", "the kernel's fixed address for it (VSYSCALL_ADDR)");
    }
}

/// `VSYSCALL_ADDR` (arch/x86/include/uapi/asm/vsyscall.h): -10 MiB.
const VSYSCALL: Addr = Addr::new(0xffff_ffff_ff60_0000);
