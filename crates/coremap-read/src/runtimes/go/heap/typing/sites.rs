//! Types that the program's code allocates. Code loads a type's address (`lea`) before it calls `runtime.newobject`.
//!
//! An object without a type gets one if exactly one allocated type has the object's size and pointers.

use std::collections::{BTreeSet, HashMap};

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::go::code::{Code, is_program};
use crate::runtimes::go::heap::typing::{MAX_WITHOUT_HEADER, Masks};
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::{TypeKind, Types};

/// Size classes up to 512 bytes (runtime/sizeclasses.go, the same from 1.16 to 1.27).
const CLASSES: [u64; 26] = [
    8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480,
    512,
];

/// The allocator's functions that take a type as their first argument.
const ALLOCATORS: [&str; 1] = ["runtime.newobject"];

/// Machine code: the opcode of a call and its length; the first bytes of a `lea` relative to the next instruction, its
/// ModRM byte for each possible register, and its length.
const CALL: u8 = 0xe8;
const CALL_LEN: usize = 5;
const LEA: [u8; 2] = [0x48, 0x8d];
const LEA_REGISTERS: [u8; 5] = [0x05, 0x1d, 0x35, 0x0d, 0x3d];
const LEA_LEN: usize = 7;

/// Maximum distance in bytes from the load of the type to the call.
const BEFORE: usize = 48;

/// Returns, for each size class and mask of pointers, the only type that code allocates. Types that the program's own
/// code allocates take precedence.
pub(super) fn by_shape(
    runtime: &Runtime<'_>,
    types: &Types<'_>,
    code: &Code<'_>,
    masks: &mut Masks<'_, '_>,
) -> HashMap<(u64, u64), Addr> {
    let (mut own, mut all): (Candidates, Candidates) = Default::default();
    each_site(runtime, code, |function, of| {
        let Some(found) = types.get(of).filter(|t| t.ptrdata > 0 && t.size <= MAX_WITHOUT_HEADER) else { return };
        let class = CLASSES.iter().find(|class| **class >= found.size);
        let (Some(class), Some(mask)) = (class, masks.of_type(types, of)) else { return };
        // An allocated interface or map does not identify a type.
        if matches!(found.kind, TypeKind::Interface | TypeKind::Map) {
            return;
        }
        all.entry((*class, mask)).or_default().insert(of);
        if is_program(function, runtime.build.module.as_deref()) {
            own.entry((*class, mask)).or_default().insert(of);
        }
    });
    let only = |set: &BTreeSet<Addr>| set.first().copied().filter(|_| set.len() == 1);
    let chosen = |(shape, set): (&(u64, u64), &BTreeSet<Addr>)| {
        let of = match own.get(shape) {
            Some(own) => only(own),
            None => only(set),
        };
        Some((*shape, of?))
    };
    all.iter().filter_map(chosen).collect()
}

/// Types by size class and mask of pointers.
type Candidates = HashMap<(u64, u64), BTreeSet<Addr>>;

/// Visits the calls of the allocator: name of the calling function, and the type.
fn each_site(runtime: &Runtime<'_>, code: &Code<'_>, mut visit: impl FnMut(&str, Addr)) {
    let Some(functions) = code.functions() else { return };
    let all = (0..functions.len()).filter_map(|i| functions.get(i));
    let entries: Vec<Addr> =
        all.filter(|func| ALLOCATORS.contains(&&*func.name)).map(|func| func.range.start).collect();
    let text = runtime.found.text;
    let len = usize::try_from(text.len().min(limits::MAX_GO_TEXT)).unwrap_or(0);
    let Ok(bytes) = runtime.memory().look(text.start, len) else { return };
    let target = |at: usize, end: usize| {
        let distance = bytes.get(at..at.checked_add(4)?)?.first_chunk().map(|b| i32::from_le_bytes(*b))?;
        text.start.checked_add(end as u64)?.checked_offset(i64::from(distance))
    };
    for call in memchr::memchr_iter(CALL, &bytes) {
        if !target(call + 1, call + CALL_LEN).is_some_and(|to| entries.contains(&to)) {
            continue;
        }
        let from = call.saturating_sub(BEFORE);
        let before = bytes.get(from..call).unwrap_or_default();
        let lea = memchr::memmem::rfind_iter(before, &LEA).find_map(|i| {
            let at = from + i;
            let register = bytes.get(at + 2).is_some_and(|byte| LEA_REGISTERS.contains(byte));
            (register && at + LEA_LEN <= call).then(|| target(at + 3, at + LEA_LEN)).flatten()
        });
        let function = text.start.checked_add(call as u64).and_then(|at| functions.at(at));
        if let (Some(of), Some(function)) = (lea, function) {
            visit(&function.name, of);
        }
    }
}
