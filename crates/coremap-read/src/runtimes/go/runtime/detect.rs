//! Detection of Go by the shape of `moduledata`, and the choice of its table.

use super::globals::Variables;
use super::moduledata::{self, Found, Sections};
use super::version::{self, Build};
use super::{Proof, Runtime};
use crate::addr::Addr;
use crate::diag::{Warning, WarningCode};
use crate::image::elf::ElfImage;
use crate::image::{Module, ModuleKind};
use crate::layout::{GO_X64, Layout};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::go::shape::Shape;
use crate::targets::Arch;

/// Result for a module that contains Go.
pub(in crate::runtimes::go) enum Detection<'p> {
    /// A runtime that can be read.
    Found(Box<Runtime<'p>>),
    /// A runtime that can't be read, and why.
    Unusable(Warning),
}

/// Examines every module of the process.
pub(in crate::runtimes::go) fn detect(process: &Process) -> Vec<Detection<'_>> {
    let _phase = process.enter(Phase::Runtime);
    let modules = process.modules.iter().enumerate();
    modules.filter_map(|(i, module)| examine(process, i, module)).take(limits::MAX_RUNTIMES).collect()
}

fn examine<'p>(process: &'p Process, index: usize, module: &Module) -> Option<Detection<'p>> {
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let memory = &process.memory;
    let parts: Vec<(Addr, Vec<u64>)> = image.writable_words(memory).collect();
    let found = parts.iter().find_map(|(start, words)| moduledata::find(memory, *start, words))?;
    // The text and the tables must be in this file. A copy of `moduledata` elsewhere does not count.
    if !image.range.contains(found.text.start) {
        return None;
    }
    let build = version::find(memory, &parts);
    let unusable = |why: String| {
        let message = format!("{}: Go{}: {why}", module.path, said(&build));
        Some(Detection::Unusable(Warning::note(WarningCode::GoUnusable, message)))
    };
    if process.arch() != Arch::X86_64 {
        return unusable("coremap reads Go on x86_64 only".to_owned());
    }
    match choose(process, image, &found, &build) {
        Ok(proof) => Some(Detection::Found(Box::new(Runtime {
            process,
            module: index,
            path: module.path.to_string(),
            range: module.range,
            found,
            build,
            proof,
        }))),
        Err(why) => unusable(why),
    }
}

fn said(build: &Build) -> String {
    build.version.as_deref().map_or_else(String::new, |version| format!(" ({version})"))
}

/// Returns the tables to try, best first, each with whether it was made for this version.
fn tables(build: &Build) -> Vec<(u32, bool, &'static Layout)> {
    let all = GO_X64.iter().filter_map(|(minor, table)| Some((*minor, table.layout().ok()?)));
    let minor = build.minor();
    let mut tables: Vec<_> = all.map(|(of, layout)| (of, Some(of) == minor, layout)).collect();
    // If the version has its own table, only that one.
    if tables.iter().any(|(_, own, _)| *own) {
        tables.retain(|(_, own, _)| *own);
    }
    // Otherwise the nearest version first. If the version is unknown, the newest first.
    tables.sort_by_key(|(of, ..)| (minor.map_or(0, |minor| of.abs_diff(minor)), u32::MAX - of));
    tables
}

/// Chooses the table whose structures agree with each other.
fn choose(process: &Process, image: &ElfImage, found: &Found, build: &Build) -> Result<Proof, String> {
    let memory = &process.memory;
    let mut why = "no known layout fits its description (moduledata)".to_owned();
    for (minor, own, layout) in tables(build) {
        let Ok(shape) = Shape::of(layout) else { continue };
        let Some(sections) = Sections::read(memory, found.at, &shape.module) else { continue };
        let parts = words(memory, image, &sections);
        let Some((globals, spans)) = (Variables { memory, shape: &shape, text: found.text, parts }).find() else {
            why = format!("its heap was not found with the layout of 1.{minor}; is its writable data in the core?");
            continue;
        };
        if globals.allgs.is_none() {
            why = format!("its list of goroutines was not found with the layout of 1.{minor}");
            continue;
        }
        // A version without a table of its own must agree exactly.
        if !own && (!globals.in_use_equal || spans.unsound > 0) {
            why = format!("with the layout of 1.{minor}, the nearest that fits, its figures contradict its spans");
            continue;
        }
        if own && (globals.controller.is_none() || spans.unsound > spans.all.len() as u64 / 16) {
            why = format!("its figures contradict its spans with the layout of 1.{minor}");
            continue;
        }
        memory.keep(found.at, shape.module.size);
        return Ok(Proof { layout, shape, own, sections, globals, spans });
    }
    Err(why)
}

/// Returns the words of the program's variables. Only ranges inside the image count: with a wrong layout they may be
/// anywhere.
fn words(memory: &dyn Memory, image: &ElfImage, sections: &Sections) -> Vec<(Addr, Vec<u64>)> {
    let inside = sections.variables().into_iter().filter_map(|range| range.intersect(&image.range));
    let parts = inside.flat_map(|range| memory.readable_parts(range, limits::MAX_IMAGE_DATA));
    parts
        .filter_map(|part| {
            let start = part.start.align_up(8);
            let bytes = memory.look(start, usize::try_from(part.end.checked_since(start)?).ok()?).ok()?;
            Some((start, bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()))
        })
        .collect()
}
