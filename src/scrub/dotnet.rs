//! Objects of .NET: what stays of each is told by its type.

use crate::addr::Addr;
use crate::dotnet::CoreClr;
use crate::managed::{Heap, TypeIndex};
use crate::scrub::heaps::{Form, Forms, LENGTH};
use crate::scrub::objects::kinds;

/// Bytes of the word before an object of .NET that tells of its lock (`ObjHeader::m_SyncBlockValue`).
const SYNC_BLOCK_VALUE: u64 = 4;

/// Heads of objects are no longer than this where they have no length: two words.
const LONGEST_HEAD: u64 = 16;

/// Numbers that answers print: in which class the field is, its name, and its bytes.
const FIELDS: [(&str, &str, u64); 1] = [("System.Exception", "_HResult", 4)];

/// What stays of the objects of a heap. `runtime`: whose it is, if it is one of CoreCLR.
pub(super) fn forms(heap: &dyn Heap, runtime: Option<&CoreClr<'_>>) -> Forms {
    let head = head(heap);
    let form = |kind: TypeIndex| {
        let info = heap.type_info(kind)?;
        let form = Form {
            // Before free space stands what a compaction left there: the end of a text, as seen in 3.1.
            prefix: if info.free { 0 } else { SYNC_BLOCK_VALUE },
            head: info.elements.map_or(head, |elements| elements.start),
            is_plain: !info.string && info.elements.is_none(),
            is_string: info.string,
            fields: runtime.map_or_else(Vec::new, |runtime| fields(runtime, info.address)),
            ..Form::default()
        };
        Some((kind, form))
    };
    kinds(heap).filter_map(form).collect()
}

/// Numbers of [`FIELDS`] that instances of a type have: from where, and how many bytes.
fn fields(runtime: &CoreClr<'_>, method_table: Addr) -> Vec<(u64, u64)> {
    let types = runtime.types();
    let bases = types.bases(method_table);
    let of = |class: &str| bases.iter().find(|at| types.display_name(**at) == class).copied();
    let mut out = Vec::new();
    for (class, name, len) in FIELDS {
        let Some(class) = of(class) else { continue };
        let all = types.object_fields(class);
        let field = all.iter().find(|field| field.method_table == class && types.field_name(field) == name);
        // Where the names of fields can't be read, the runtime's own layout may tell.
        let described = || runtime.types().runtime.layout.positive("Exception", name).ok();
        out.extend(field.map(|field| field.offset).or_else(described).map(|offset| (offset, len)));
    }
    out
}

/// Bytes of a head without a length, told by the shortest that has one.
fn head(heap: &dyn Heap) -> u64 {
    let types = kinds(heap).filter_map(|kind| heap.type_info(kind));
    let shortest = types.filter_map(|info| info.elements).map(|elements| elements.start).min();
    shortest.unwrap_or(8 + LENGTH).saturating_sub(LENGTH).min(LONGEST_HEAD)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Cursor, Write};

    use crate::process::{Options, Process};
    use crate::progress::Progress;
    use crate::scrub::LeftTexts;
    use crate::scrub::tests::{becomes, open, plan, words};
    use crate::session::Session;
    use crate::shrink::write_scrubbed;

    // Cut down to what threads need: no object of its heap can be walked, and code heaps are mappings like any other.
    const THREADS: &str = "dotnet8-threads/core.zst";

    #[test]
    fn how_long_names_of_threads_are_stays_without_a_heap() {
        let process = open(THREADS);
        let session = Session::new(&process);
        let plan = plan(&session);
        // A length of 8, and the first two characters of "lab-main".
        let head = 8 | u64::from(u32::from(b'a') << 16 | u32::from(b'l')) << 32;
        let heads = words(&plan, |_, _, value| value == head);
        assert!(!heads.is_empty());
        assert!(heads.iter().any(|(at, _)| becomes(&plan, *at) == head.to_le_bytes()));
    }

    #[test]
    fn gc_info_stays_though_its_bits_read_as_letters() {
        // How many frames tell their references themselves, and how many don't.
        let frames = |process: &Process| {
            let stacks = Session::new(process).roots(0).stacks;
            (stacks.frames_precise, stacks.frames_conservative)
        };
        let process = open(THREADS);
        let session = Session::new(&process);
        let mut out = Cursor::new(Vec::new());
        write_scrubbed(&process, None, &plan(&session), LeftTexts::default(), &mut out).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&out.into_inner()).unwrap();
        let scrubbed = Process::open(file.path(), &Options::default(), &Progress::silent()).unwrap();
        let before = frames(&process);
        assert!(before.0 > 100 && before.1 == 0, "{before:?}");
        assert_eq!(frames(&scrubbed), before);
    }
}
