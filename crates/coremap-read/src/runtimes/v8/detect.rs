//! Detects V8: a program or library that exports V8's constants, and pages, roots and objects that fit a form.

use std::collections::BTreeMap;

use crate::diag::{Warning, WarningCode};
use crate::image::elf::ElfImage;
use crate::image::{Module, ModuleKind};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::v8::constants::{self, Constants};
use crate::runtimes::v8::forms::{Form, candidates};
use crate::runtimes::v8::heap::{in_step, sizes};
use crate::runtimes::v8::isolates;
use crate::runtimes::v8::pages;
use crate::runtimes::v8::vm::{Offsets, Types, Vm};
use crate::targets::Arch;

/// Prefixes of the file names of programs and libraries that contain V8, even if its constants are missing.
const NAMES: [&str; 2] = ["node", "libnode"];

/// Minimum number of constants. V8's versions export 450 to 550.
const ENOUGH: usize = 200;

/// Minimum share of the checkable maps in the table of roots that describe the expected type, in percent.
const ROOTS_SHARE: usize = 80;

/// Minimum share of objects that are directly followed by another object, per thousand.
const IN_STEP_SHARE: u64 = 985;

/// A module that contains V8.
pub(super) enum Detection<'p> {
    /// A V8 that can be read.
    Found(Box<Vm<'p>>),
    /// A V8 that can't be read, and why.
    Unusable(Warning),
}

/// Finds V8 among the process's modules.
pub(super) fn detect(process: &Process) -> Vec<Detection<'_>> {
    let _phase = process.enter(Phase::Runtime);
    let candidates = process.modules.iter().enumerate();
    candidates.filter_map(|(i, module)| look_at(process, i, module)).take(limits::MAX_RUNTIMES).collect()
}

fn look_at<'p>(process: &'p Process, index: usize, module: &Module) -> Option<Detection<'p>> {
    let named = is_named(module.name());
    let ModuleKind::Elf(image) = &module.kind else {
        return named.then(|| unsupported(module, "its ELF header is not in the core"));
    };
    if !named && !image.has_interpreter {
        return None;
    }
    if !constants::exported_by(&process.memory, image) {
        // If the symbols are in the core and V8's are not among them, the file only has Node.js's name.
        let symbols = image.dynamic_addr(&process.memory, goblin::elf::dynamic::DT_SYMTAB);
        let missing = symbols.is_none_or(|at| process.memory.readable(at, 24) < 24);
        return (named && missing && image.has_interpreter)
            .then(|| unsupported(module, "the names of V8's constants (its dynamic symbols) are not in the core"));
    }
    Some(match open(process, index, module, image) {
        Ok(vm) => Detection::Found(Box::new(vm)),
        Err(why) => Detection::Unusable(Warning::note(WarningCode::V8Unusable, format!("{}: {why}", module.path))),
    })
}

/// Whether a file name is one of Node.js: `node`, `nodejs`, `libnode.so.108`.
fn is_named(name: &str) -> bool {
    let rest = |prefix: &&str| name.strip_prefix(*prefix);
    NAMES.iter().find_map(rest).is_some_and(|rest| rest.is_empty() || rest == "js" || rest.starts_with(".so"))
}

fn unsupported<'p>(module: &Module, why: &str) -> Detection<'p> {
    let message = format!(
        "{}: {why}, so V8 can't be read. Give a folder with this file (same build) by --symbols DIR",
        module.path
    );
    Detection::Unusable(Warning::note(WarningCode::V8Unusable, message))
}

fn open<'p>(process: &'p Process, index: usize, module: &Module, image: &ElfImage) -> Result<Vm<'p>, String> {
    let memory = &process.memory;
    if process.arch() != Arch::X86_64 {
        return Err("V8 is read on x86_64 only".to_owned());
    }
    let version = constants::version(memory, image).ok_or("V8's version can't be read")?;
    let [major, minor, build, patch] = version;
    let shown = format!("V8 {major}.{minor}.{build}.{patch}");
    let constants = Constants::read(memory, image);
    if constants.len() < ENOUGH {
        return Err(format!("{shown}: only {} of its constants can be read", constants.len()));
    }
    if constants.get("TaggedSize") != Some(8) || constants.get("SmiShiftSize") != Some(31) {
        return Err(format!("{shown} compresses pointers, which is not supported"));
    }
    let offsets = Offsets::new(&constants).map_err(|name| format!("{shown} exports no {name}"))?;
    let mut types = Types::default();
    constants.types().for_each(|(name, number)| types.add(name, number));
    let numbers = numbers(&constants, &types).ok_or_else(|| format!("{shown} exports no numbers of some types"))?;
    let mut vm = Vm {
        process,
        memory,
        module: index,
        path: module.path.to_string(),
        range: module.range,
        version,
        constants,
        form: candidates(version).first().copied().ok_or("no form")?,
        offsets,
        types,
        map_type: numbers.map,
        functions: numbers.functions,
        first_object: numbers.first_object,
        contexts: numbers.contexts,
        pages: Vec::new(),
        isolates: Vec::new(),
        free_unit: 8,
    };
    let mut why = format!("{shown}: no page of its heap was found");
    for form in candidates(version) {
        match fit(&mut vm, form) {
            Ok(()) => return Ok(vm),
            // Report the reason from the form that got furthest.
            Err((reached, text)) if reached > 0 => why = format!("{shown}: {text}"),
            Err(_) => {}
        }
    }
    Err(why)
}

struct Numbers {
    map: u16,
    functions: (u16, u16),
    first_object: u16,
    contexts: (u16, u16),
}

/// Number of types of functions, if no constant has the last one. V8 10 and 11 have 17.
const FUNCTION_TYPES: u16 = 17;

fn numbers(constants: &Constants, types: &Types) -> Option<Numbers> {
    let number = |name: &str| u16::try_from(constants.get(name)?).ok();
    let first = types.get("JS_FUNCTION")?;
    let objects = constants.types().filter(|(name, _)| name.starts_with("JS_")).map(|(_, number)| number);
    Some(Numbers {
        map: types.get("MAP")?,
        functions: (first, number("LastJSFunctionType").unwrap_or(first.saturating_add(FUNCTION_TYPES - 1))),
        // Objects without a fast path have lower numbers than all others (JS_GLOBAL_OBJECT, JS_PROXY).
        first_object: objects.min()?,
        contexts: (number("FirstContextType")?, number("LastContextType")?),
    })
}

/// Tries a form on the memory. The error has the number of the step that failed.
fn fit(vm: &mut Vm<'_>, form: &'static Form) -> Result<(), (u8, String)> {
    vm.form = form;
    vm.pages = pages::find(vm.process, &form.page, form.spaces.len());
    if vm.pages.iter().all(|page| page.heap.is_null()) {
        return Err((0, String::new()));
    }
    let isolates = isolates::find(vm);
    let Some(first) = isolates.first() else {
        return Err((1, "the table of roots was not found".to_owned()));
    };
    // Index, name and number of each map's type. The last value says whether the constants have the same number, if
    // they name the type.
    let mut maps: Vec<(u64, &'static str, u16, Option<bool>)> = Vec::new();
    for (name, index) in form.maps {
        let slot = first.roots.saturating_add(8 * index);
        let map = vm.word(slot.get()).and_then(super::vm::strong);
        let Some(number) = map.and_then(|map| vm.map(map)).map(|info| info.instance_type) else { continue };
        maps.push((*index, *name, number, vm.types.get(name).map(|wanted| wanted == number)));
    }
    maps.sort_unstable_by_key(|(index, ..)| *index);
    let named = maps.iter().filter(|(.., agrees)| agrees.is_some()).count();
    let right = maps.iter().filter(|(.., agrees)| *agrees == Some(true)).count();
    let known = trusted(&maps);
    if named == 0 || right * 100 < named * ROOTS_SHARE || !known.contains_key("FREE_SPACE") {
        return Err((2, format!("its table of roots is not that of V8 {}", form.name)));
    }
    known.into_iter().for_each(|(name, number)| vm.types.add(name, number));
    // Memory that only looks like a page belongs to no isolate.
    vm.pages.retain(|page| page.heap.is_null() || isolates.iter().any(|isolate| isolate.heap == page.heap));
    tracing::debug!(form = form.name, isolates = isolates.len(), pages = vm.pages.len(), "V8");
    vm.isolates = isolates;
    vm.free_unit = sizes::free_unit(vm);
    let (steps, breaks) = in_step(vm);
    if steps == 0 || (steps - breaks.min(steps)) * 1000 < steps * IN_STEP_SHARE {
        return Err((3, format!("{breaks} of {steps} objects don't follow the one before as in V8 {}", form.name)));
    }
    Ok(())
}

/// Returns the types of maps that can be trusted. Some versions insert roots, and every later index is then wrong. A
/// type is trusted if the constants agree with it, or with its nearest neighbours that they name.
fn trusted(maps: &[(u64, &'static str, u16, Option<bool>)]) -> BTreeMap<&'static str, u16> {
    let mut out = BTreeMap::new();
    for (i, (_, name, number, agrees)) in maps.iter().enumerate() {
        let before = maps.iter().take(i).rev().find_map(|(.., agrees)| *agrees).unwrap_or(true);
        let after = maps.iter().skip(i).find_map(|(.., agrees)| *agrees).unwrap_or(true);
        if agrees.unwrap_or(before && after) {
            out.insert(*name, *number);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_node_are_known_by_name() {
        let is = |names: &[&str]| names.iter().map(|name| is_named(name)).collect::<Vec<_>>();
        assert_eq!(is(&["node", "nodejs", "libnode.so.108", "libnode.so"]), [true; 4]);
        assert_eq!(is(&["node_exporter", "nodemon", "anode", "libnodepp.so"]), [false; 4]);
    }

    /// Known types at both ends, and a moved one between them.
    #[test]
    fn maps_next_to_a_moved_one_are_not_believed() {
        let maps = [
            (1, "A", 10, Some(true)),
            (2, "B", 11, None),
            (3, "C", 12, Some(false)),
            (4, "D", 13, None),
            (5, "E", 14, Some(true)),
        ];
        assert_eq!(trusted(&maps).into_keys().collect::<Vec<_>>(), ["A", "E"]);
        let maps = [(1, "A", 10, Some(true)), (2, "B", 11, None)];
        assert_eq!(trusted(&maps).into_keys().collect::<Vec<_>>(), ["A", "B"]);
    }
}
