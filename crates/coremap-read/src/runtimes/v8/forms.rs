//! Forms of V8's structures, as data: what its constants lack, one row for each group of versions.
//!
//! A row is only used if it fits the memory: the pages, the table of roots, and the share of objects that follow each
//! other without a gap ([`crate::runtimes::v8::detect`]). Sources: V8's memory-chunk.h, roots.h, objects/*.h and *.tq
//! of 10.2, 11.3, 12.4, 13.6 and 14.6.

use crate::runtimes::v8::root_maps::{MAPS_10, MAPS_11, MAPS_11_8, MAPS_12, MAPS_13, MAPS_14};

/// Positions of the fields of a page's metadata, in words.
#[derive(Debug)]
pub(super) struct PageForm {
    /// Position in the page's header of the pointer to the metadata. `None` if the header is the metadata.
    pub metadata: Option<u64>,
    /// Position in the page's header of its flags.
    pub flags: usize,
    pub size: usize,
    pub heap: usize,
    pub start: usize,
    pub end: usize,
    pub owner: usize,
}

/// Location of the instructions of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeForm {
    /// In the object that describes them (`Code`), from byte 128 on.
    InCode,
    /// In an InstructionStream. Its Code has the size.
    SizedByCode,
    /// In an InstructionStream, which has its own size.
    SizedByStream,
}

/// Layout of a ScopeInfo.
#[derive(Debug)]
pub(super) struct ScopeForm {
    /// Whether the flags are a raw number instead of a Smi, and the source positions precede the names.
    pub raw_flags: bool,
    /// Whether the number of module variables precedes the names.
    pub module_count_first: bool,
    /// Whether a function scope has a word for unused parameters.
    pub unused_parameters: bool,
    /// Numbers of scope types: function, module, script, eval, class, shadow realm.
    pub types: [u64; 6],
}

/// Layout that V8's constants lack, for a range of versions.
#[derive(Debug)]
pub(super) struct Form {
    /// Name in reports.
    pub name: &'static str,
    /// First version: major, minor.
    pub from: (u32, u32),
    /// First version after the last.
    pub below: (u32, u32),
    pub page: PageForm,
    /// Names of the spaces by their number.
    pub spaces: &'static [&'static str],
    /// Index of `undefined` in the table of roots.
    pub undefined: u64,
    /// Indices in the table of roots of maps, with the instance type that the map describes.
    pub maps: &'static [(&'static str, u64)],
    /// Bytes before the elements of a FeedbackVector.
    pub vector_header: u32,
    /// Whether an ArrayList has a length besides its capacity.
    pub array_list: bool,
    /// Bytes before the elements of an ObjectBoilerplateDescription and a ScriptContextTable.
    pub description_header: u32,
    /// Bytes before the elements of a RegExpMatchInfo.
    pub match_info_header: u32,
    /// Bytes of a closure in a FeedbackMetadata.
    pub metadata_closure: u32,
    pub code: CodeForm,
    pub scope: ScopeForm,
    /// Offset of the source position table in a BytecodeArray.
    pub positions: u64,
    /// Whether the first number of a position entry is unsigned and has two flags in its low bits.
    pub flagged_positions: bool,
    /// Offset in a Code of its bytecode or its deoptimization data. The offset table is the next field.
    pub code_data: u64,
    /// Offset in a Code of the address of its instructions, unless a constant has it.
    pub instruction_start: u64,
    /// Offset in a Code of its flags, unless a constant has it.
    pub code_flags: u64,
    /// Index of the first entry in deoptimization data.
    pub deoptimizations: u64,
    /// Kind of TurboFan's code.
    pub turbofan: u64,
}

const SPACES_10: &[&str] = &[
    "read_only_space",
    "old_space",
    "code_space",
    "map_space",
    "large_object_space",
    "code_large_object_space",
    "new_large_object_space",
    "new_space",
];

const SPACES_11: &[&str] = &[
    "read_only_space",
    "new_space",
    "old_space",
    "code_space",
    "shared_space",
    "new_large_object_space",
    "large_object_space",
    "code_large_object_space",
    "shared_large_object_space",
];

const SPACES_12: &[&str] = &[
    "read_only_space",
    "new_space",
    "old_space",
    "code_space",
    "shared_space",
    "trusted_space",
    "new_large_object_space",
    "large_object_space",
    "code_large_object_space",
    "shared_large_object_space",
    "trusted_large_object_space",
];

const SPACES_13: &[&str] = &[
    "read_only_space",
    "new_space",
    "old_space",
    "code_space",
    "shared_space",
    "trusted_space",
    "shared_trusted_space",
    "new_large_object_space",
    "large_object_space",
    "code_large_object_space",
    "shared_large_object_space",
    "shared_trusted_large_object_space",
    "trusted_large_object_space",
];

const PAGE_11: PageForm = PageForm { metadata: None, flags: 1, size: 0, heap: 2, start: 3, end: 4, owner: 8 };
const PAGE_12: PageForm = PageForm { metadata: None, flags: 0, size: 2, heap: 3, start: 4, end: 5, owner: 9 };
const PAGE_13: PageForm = PageForm { metadata: Some(1), flags: 0, size: 6, heap: 8, start: 9, end: 7, owner: 10 };

const SCOPE_10: ScopeForm =
    ScopeForm { raw_flags: false, module_count_first: false, unused_parameters: false, types: [2, 3, 4, 1, 0, 8] };
const SCOPE_12: ScopeForm = ScopeForm { module_count_first: true, ..SCOPE_10 };
const SCOPE_13: ScopeForm =
    ScopeForm { raw_flags: true, module_count_first: true, unused_parameters: false, types: [4, 5, 0, 3, 2, 9] };
const SCOPE_14: ScopeForm = ScopeForm { unused_parameters: true, ..SCOPE_13 };

const FORM_10: Form = Form {
    name: "10.2",
    from: (10, 0),
    below: (11, 0),
    page: PAGE_11,
    spaces: SPACES_10,
    undefined: 4,
    maps: MAPS_10,
    vector_header: 48,
    array_list: false,
    description_header: 16,
    match_info_header: 16,
    metadata_closure: 0,
    code: CodeForm::InCode,
    scope: SCOPE_10,
    positions: 32,
    flagged_positions: false,
    code_data: 16,
    instruction_start: 128,
    code_flags: 48,
    deoptimizations: 11,
    turbofan: 13,
};

const FORM_11: Form = Form {
    name: "11.3",
    from: (11, 0),
    below: (11, 6),
    spaces: SPACES_11,
    maps: MAPS_11,
    vector_header: 56,
    code: CodeForm::SizedByCode,
    instruction_start: 40,
    ..FORM_10
};

/// 11.8 (Node.js 21): an InstructionStream has its own size, as in 12.
const FORM_11_8: Form = Form {
    name: "11.8",
    from: (11, 6),
    below: (12, 0),
    maps: MAPS_11_8,
    code: CodeForm::SizedByStream,
    instruction_start: 32,
    code_flags: 40,
    code_data: 8,
    ..FORM_11
};

const FORM_12: Form = Form {
    name: "12.4",
    from: (12, 0),
    below: (12, 6),
    page: PAGE_12,
    spaces: SPACES_12,
    maps: MAPS_12,
    array_list: true,
    description_header: 32,
    match_info_header: 40,
    code: CodeForm::SizedByStream,
    instruction_start: 40,
    scope: SCOPE_12,
    positions: 24,
    code_data: 8,
    turbofan: 12,
    ..FORM_11
};

const FORM_13: Form = Form {
    name: "13.6",
    from: (13, 0),
    below: (14, 0),
    page: PAGE_13,
    spaces: SPACES_13,
    maps: MAPS_13,
    vector_header: 48,
    metadata_closure: 2,
    scope: SCOPE_13,
    code_flags: 52,
    deoptimizations: 12,
    ..FORM_12
};

/// 12.9 (Node.js 23) has the structures of 13 except for one header.
const FORM_12_9: Form = Form { name: "12.9", from: (12, 6), below: (13, 0), vector_header: 56, ..FORM_13 };

const FORM_14: Form = Form {
    name: "14.6",
    from: (14, 2),
    below: (15, 0),
    undefined: 0,
    maps: MAPS_14,
    scope: SCOPE_14,
    flagged_positions: true,
    turbofan: 13,
    ..FORM_13
};

/// 14.1 (Node.js 25).
const FORM_14_1: Form = Form { name: "14.1", from: (14, 0), below: (14, 2), scope: SCOPE_13, ..FORM_14 };

/// All forms.
pub(super) const FORMS: [&Form; 8] =
    [&FORM_10, &FORM_11, &FORM_11_8, &FORM_12, &FORM_12_9, &FORM_13, &FORM_14_1, &FORM_14];

/// Returns the forms to try for a version: its own first, then the nearest ones.
pub(super) fn candidates(version: [u32; 4]) -> Vec<&'static Form> {
    let [major, minor, ..] = version;
    let own = FORMS.iter().position(|form| (form.from..form.below).contains(&(major, minor)));
    let mut all: Vec<(usize, &'static Form)> = FORMS.iter().copied().enumerate().collect();
    let near = own.unwrap_or(if (major, minor) < FORMS[0].from { 0 } else { FORMS.len() - 1 });
    all.sort_by_key(|(i, _)| i.abs_diff(near));
    all.into_iter().map(|(_, form)| form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_form() {
        let first = |major, minor| candidates([major, minor, 0, 0])[0].name;
        // Node.js 18, 20, 21, 22, 23, 24, 25 and 26.
        let versions = [(10, 2), (11, 3), (11, 8), (12, 4), (12, 9), (13, 6), (14, 1), (14, 6)];
        let names = versions.map(|(major, minor)| first(major, minor));
        assert_eq!(names, ["10.2", "11.3", "11.8", "12.4", "12.9", "13.6", "14.1", "14.6"]);
        assert_eq!((first(9, 4), first(15, 0)), ("10.2", "14.6"));
    }
}
