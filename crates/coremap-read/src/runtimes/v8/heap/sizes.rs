//! Sizes of objects: a map states the size of its objects, or their instance type has a formula.

use crate::memory::window::Window;
use crate::runtimes::v8::forms::{CodeForm, ScopeForm};
use crate::runtimes::v8::vm::{FIRST_NONSTRING, MapInfo, Vm, count, strong};

/// Number of free areas that are tried to find the unit of their sizes.
const VOTES: usize = 400;

/// Minimum number of local variables of a ScopeInfo whose names are in a hash table.
const NAMES_IN_TABLE: u64 = 75;

/// How an object's size follows from its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::v8) enum SizeRule {
    /// This number of bytes.
    Fixed(u64),
    /// A header, and elements whose number is a Smi at byte 8. Sizes in bytes.
    Counted { header: u64, element: u64, mask: u64 },
    /// A header, and elements whose number is a 32-bit number at byte 8, after a shift right by `shift`. Sizes in
    /// bytes.
    Raw { header: u64, element: u64, shift: u32 },
    /// A sequential string, with characters of `unit` bytes.
    Text { unit: u64 },
    /// DescriptorArray, with a header of this size.
    Descriptors { header: u64 },
    /// FeedbackMetadata, with this number of bytes per closure.
    Metadata { closure: u64 },
    /// PreparseData.
    Preparse,
    /// Free space whose size is in units of `unit` bytes.
    Free { unit: u64 },
    /// ScopeInfo.
    Scope,
    /// An object with instructions.
    Code(CodeForm),
    /// An object without a formula. Its size follows from where the next object begins.
    Unknown,
}

/// Returns the rule for objects with this map.
pub(in crate::runtimes::v8) fn rule(vm: &Vm<'_>, info: &MapInfo) -> SizeRule {
    use SizeRule::{Code, Counted, Descriptors, Fixed, Free, Metadata, Preparse, Raw, Scope, Text, Unknown};
    if info.words != 0 {
        return Fixed(8 * u64::from(info.words));
    }
    let number = info.instance_type;
    if number < FIRST_NONSTRING {
        return Text { unit: if number & 8 != 0 { 1 } else { 2 } };
    }
    let words = |header: u64| Counted { header, element: 8, mask: u64::MAX };
    if number == vm.native_context() {
        return words(24);
    }
    if vm.is_context_type(number) {
        return words(16);
    }
    let form = vm.form;
    match vm.types.name(number).unwrap_or_default() {
        "FREE_SPACE" => Free { unit: vm.free_unit },
        "BYTE_ARRAY" | "TRUSTED_BYTE_ARRAY" => Counted { header: 16, element: 1, mask: u64::MAX },
        "BYTECODE_ARRAY" => Counted { header: vm.offsets.bytecodes, element: 1, mask: u64::MAX },
        "PROPERTY_ARRAY" => Counted { header: 16, element: 8, mask: 1023 },
        "WEAK_ARRAY_LIST" => words(24),
        "ARRAY_LIST" if form.array_list => words(24),
        "SLOPPY_ARGUMENTS_ELEMENTS" => words(32),
        "OBJECT_BOILERPLATE_DESCRIPTION" | "SCRIPT_CONTEXT_TABLE" => words(form.description_header.into()),
        "REG_EXP_MATCH_INFO" => words(form.match_info_header.into()),
        "DESCRIPTOR_ARRAY" | "STRONG_DESCRIPTOR_ARRAY" => Descriptors { header: vm.offsets.descriptors },
        "FEEDBACK_VECTOR" => Raw { header: form.vector_header.into(), element: 8, shift: 0 },
        "FEEDBACK_METADATA" => Metadata { closure: form.metadata_closure.into() },
        "BIGINT" => Raw { header: 16, element: 8, shift: 1 },
        "DOUBLE_STRING_CACHE" => Raw { header: 16, element: 16, shift: 0 },
        "PREPARSE_DATA" => Preparse,
        "SCOPE_INFO" => Scope,
        "INSTRUCTION_STREAM" => Code(form.code),
        "CODE" if form.code == CodeForm::InCode => Code(form.code),
        "COVERAGE_INFO" | "SWISS_NAME_DICTIONARY" => Unknown,
        name if name.starts_with("SMALL_ORDERED_") || name.starts_with("WASM") => Unknown,
        // All other types with a variable size are arrays of tagged words.
        _ => words(16),
    }
}

impl SizeRule {
    /// Returns the size in bytes of the object at `at`, a multiple of 8.
    #[inline]
    pub(in crate::runtimes::v8) fn size(self, vm: &Vm<'_>, window: &Window<'_>, at: u64) -> Option<u64> {
        let word = |i: u64| window.word(at.wrapping_add(8 * i));
        let sized = |header: u64, element: u64, n: u64| header.checked_add(element.checked_mul(n)?);
        let size = match self {
            SizeRule::Fixed(size) => size,
            SizeRule::Counted { header, element, mask } => {
                let n = word(1)?;
                if n & 0xffff_ffff != 0 {
                    return None;
                }
                sized(header, element, n >> 32 & mask)?
            }
            SizeRule::Raw { header, element, shift } => sized(header, element, (word(1)? & 0xffff_ffff) >> shift)?,
            SizeRule::Text { unit } => sized(16, unit, word(1)? >> 32)?,
            SizeRule::Descriptors { header } => sized(header, 24, word(1)? & 0xffff)?,
            SizeRule::Metadata { closure } => {
                let (slots, closures) = (word(1)? & 0xffff_ffff, word(1)? >> 32);
                // Six slots of five bits each are in a 32-bit word.
                sized(16, 4, slots.div_ceil(6))?.checked_add(closure * closures)?
            }
            SizeRule::Preparse => {
                let (bytes, children) = (word(1)? & 0xffff_ffff, word(1)? >> 32);
                sized(bytes.checked_add(16)?.next_multiple_of(8), 8, children)?
            }
            SizeRule::Free { unit } => (word(1)? >> 32).checked_mul(unit)?,
            SizeRule::Scope => 8 * scope_words(&vm.form.scope, word)?,
            SizeRule::Code(form) => code_size(vm, form, word)?,
            SizeRule::Unknown => return None,
        };
        (size >= 8).then(|| size.checked_next_multiple_of(8)).flatten()
    }
}

/// Returns the size of an object with instructions.
fn code_size(vm: &Vm<'_>, form: CodeForm, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let (header, body) = match form {
        CodeForm::InCode => (vm.form.instruction_start, halves(word(5)?)),
        // The sizes of instructions and metadata are in the Code that the stream refers to.
        CodeForm::SizedByCode => (16, halves(vm.field(strong(word(1)?)?, 56)?)),
        CodeForm::SizedByStream => (32, word(3)? & 0xffff_ffff),
    };
    (header + body).checked_next_multiple_of(64)
}

/// Positions of parts of a ScopeInfo, in words (scope-info.tq).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::runtimes::v8) struct ScopeParts {
    /// Number of local variables in the context.
    pub locals: u64,
    /// First name of a local variable, or the table of all names.
    pub names: u64,
    pub names_in_table: bool,
    /// Name of the function.
    pub function: Option<u64>,
    /// Name that the parser inferred.
    pub inferred: Option<u64>,
    /// Start and end position in the source.
    pub positions: Option<u64>,
    /// The scope around it.
    pub outer: Option<u64>,
    /// Whether contexts of the scope have a word before their variables.
    pub extension: bool,
    pub is_function: bool,
    pub is_module: bool,
    words: u64,
}

/// Returns the parts of a ScopeInfo. `word` reads a word of it by index.
pub(in crate::runtimes::v8) fn scope_parts(form: &ScopeForm, word: impl Fn(u64) -> Option<u64>) -> Option<ScopeParts> {
    let [function, module, script, eval, class, realm] = form.types;
    let flags = if form.raw_flags { word(1)? & 0xffff_ffff } else { word(1)? >> 32 };
    let is = |bit: u32| flags >> bit & 1 != 0;
    let kind = flags & 15;
    let locals = count(word(3)?)?;
    if locals > 1 << 20 {
        return None;
    }
    let mut at = 4;
    let mut parts = ScopeParts {
        locals,
        extension: is(26),
        is_function: kind == function,
        is_module: kind == module,
        ..ScopeParts::default()
    };
    if form.raw_flags {
        parts.positions = Some(at);
        at += 2;
    }
    let mut module_variables = 0;
    if form.module_count_first && kind == module {
        module_variables = count(word(at)?)?;
        at += 1;
    }
    parts.names = at;
    parts.names_in_table = locals >= NAMES_IN_TABLE;
    at += if parts.names_in_table { 1 } else { locals };
    at += locals;
    at += u64::from(is(10));
    if flags >> 12 & 3 != 0 {
        parts.function = Some(at);
        at += 2;
    }
    if is(14) {
        parts.inferred = Some(at);
        at += 1;
    }
    let positioned = [function, script, eval, module, realm].contains(&kind) || kind == class && !is(29);
    if !form.raw_flags && positioned {
        parts.positions = Some(at);
        at += 2;
    }
    if is(22) {
        parts.outer = Some(at);
        at += 1;
    }
    at += u64::from(!form.raw_flags && is(28));
    if kind == module {
        at += 1;
        if !form.module_count_first {
            module_variables = count(word(at)?)?;
            at += 1;
        }
        at += module_variables.checked_mul(3)?;
    }
    at += u64::from(form.raw_flags && is(4));
    at += u64::from(form.unused_parameters && kind == function);
    parts.words = at;
    Some(parts)
}

fn scope_words(form: &ScopeForm, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    scope_parts(form, word).map(|parts| parts.words)
}

/// Finds the unit of the sizes in free space: bytes up to V8 12.9, words from 13 on. Both are tried. The right unit
/// leads to the next object more often.
pub(in crate::runtimes::v8) fn free_unit(vm: &Vm<'_>) -> u64 {
    let Some(free) = vm.root("FREE_SPACE") else { return 8 };
    let (mut bytes, mut words, mut votes) = (0_usize, 0_usize, 0_usize);
    for page in vm.pages.iter().filter(|page| !vm.is_large(page)) {
        for window in Window::all(vm.process.target(), page.area) {
            let mut at = window.start;
            while at < window.end && votes < VOTES {
                let size = window.word(at.wrapping_add(8)).unwrap_or(0);
                if window.word(at) == Some(free) && size != 0 && size & 0xffff_ffff == 0 {
                    let leads = |unit: u64| {
                        let next = at.saturating_add((size >> 32).saturating_mul(unit));
                        next == page.area.end.get()
                            || window.word(next).and_then(strong).is_some_and(|map| vm.map(map).is_some())
                    };
                    bytes += usize::from(leads(1));
                    words += usize::from(leads(8));
                    votes += 1;
                }
                at = at.wrapping_add(8);
            }
        }
    }
    if bytes > words { 1 } else { 8 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;
    use crate::runtimes::v8::forms::candidates;

    fn form(major: u32, minor: u32) -> &'static ScopeForm {
        &candidates([major, minor, 0, 0]).first().expect("forms").scope
    }

    fn smi(n: u64) -> u64 {
        n << 32
    }

    /// A function scope with two context variables, a function name, an inferred name and an outer scope: V8 11.
    #[test]
    fn a_scope_info_of_v8_11_has_positions_after_its_names() {
        let flags = 2 | 1 << 12 | 1 << 14 | 1 << 22;
        let words = [1, smi(flags), smi(0), smi(2)];
        let parts = scope_parts(form(11, 3), |i| words.get(i as usize).copied()).expect("a scope");
        assert_eq!((parts.locals, parts.names, parts.function, parts.inferred), (2, 4, Some(8), Some(10)));
        assert_eq!((parts.positions, parts.outer, parts.words), (Some(11), Some(13), 14));
    }

    /// The same in V8 13, where flags are raw and positions come first.
    #[test]
    fn a_scope_info_of_v8_13_has_positions_before_its_names() {
        let flags = 4 | 1 << 12 | 1 << 14 | 1 << 22;
        let words = [1, flags, smi(0), smi(2)];
        let parts = scope_parts(form(13, 6), |i| words.get(i as usize).copied()).expect("a scope");
        assert_eq!((parts.positions, parts.names, parts.function, parts.inferred), (Some(4), 6, Some(10), Some(12)));
        assert_eq!((parts.outer, parts.words), (Some(13), 14));
    }

    #[test]
    fn a_scope_with_too_many_variables_is_none() {
        let words = [1, 4, smi(0), smi(1 << 30)];
        assert_eq!(scope_parts(form(13, 6), |i| words.get(i as usize).copied()), None);
        assert_eq!(scope_parts(form(13, 6), |_| None), None);
    }
}
