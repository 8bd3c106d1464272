//! Names of methods: from section 327, which has those in stack traces, and from section 306, which has those that
//! reflection can call. No method is in both.
//!
//! Section 327 has a number of rows, and for each row a byte that says what follows: an owner, a name, a signature;
//! then a relative pointer to the method's code. What is left out is as in the row before. Sections 328 and 329 have
//! lines, of programs that were built with them. All of them are read-only, so that a kernel's core lacks them.
//!
//! Sources: tools/aot/ILCompiler.Compiler (StackTraceMethodMappingNode, ReflectionInvokeMapNode,
//! StackTraceLineNumbersNode); System.Private.StackTraceMetadata.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::bytes::u32_at;
use crate::limits;
use crate::runtimes::nativeaot::metadata::{Metadata, Sections, format, relative};
use crate::runtimes::nativeaot::naming::{Names, without_arity};

/// What a row of section 327 has.
const HAS_OWNER: u8 = 1;
const HAS_NAME: u8 = 2;
const HAS_SIGNATURE: u8 = 4;
const HAS_GENERIC_SIGNATURE: u8 = 8;

/// Flags of entries of section 306 in 8.0 that have another form.
const OTHER_FORM: u32 = 5;

/// The type that a method belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// A handle in the metadata.
    Token(u32),
    /// A MethodTable.
    Type(Addr),
}

/// A method without the text of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    owner: Owner,
    /// Offset of its name in the metadata.
    name: u32,
}

/// Lines of a method's code.
struct Lines {
    file: u32,
    /// Offsets in the code, ascending, each with a line.
    points: Vec<(u32, u32)>,
}

/// The methods of a program, by the start of their code.
#[derive(Default)]
pub(super) struct Methods {
    rows: HashMap<u64, Row>,
    /// Whether the program was built without names for stack traces.
    pub(super) nameless: bool,
    lines: HashMap<u64, Lines>,
    /// Names of files, by their offset.
    files: Vec<u8>,
    /// Names that were made.
    names: Mutex<HashMap<(Owner, u32), Option<String>>>,
}

impl Methods {
    /// Reads the sections. Empty if they are not in the core. `code`: the range of compiled code.
    pub(super) fn read(names: &Names<'_>, code: AddrRange) -> Methods {
        let mut out = Methods::default();
        let (Some(sections), Some(metadata)) = (names.sections(), names.metadata()) else { return out };
        let runtime = names.runtime();
        if let Some((at, bytes)) = sections.bytes(runtime, "MethodNames") {
            out.nameless = u32_at(&bytes, 0) == Some(0);
            for (start, row) in rows(at, &bytes) {
                out.add(code, start, row);
            }
        }
        let Some((fixups_at, fixups)) = sections.bytes(runtime, "CommonFixupsTable") else { return out };
        let external = |index: u32| relative(fixups_at, &fixups, (index as usize).checked_mul(4)?);
        if let Some((_, bytes)) = sections.bytes(runtime, "InvokeMap") {
            for entry in format::entries(&bytes) {
                if let Some((start, row)) = invokable(&bytes, entry, metadata, external) {
                    out.add(code, start, row);
                }
            }
        }
        out.read_lines(names, sections, external);
        out
    }

    fn add(&mut self, code: AddrRange, start: Addr, row: Row) {
        if code.contains(start) && self.rows.len() < limits::MAX_AOT_METHODS {
            self.rows.entry(start.get()).or_insert(row);
        }
    }

    /// Whether no method is known.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Starts of all methods.
    pub(super) fn starts(&self) -> impl Iterator<Item = Addr> {
        self.rows.keys().map(|start| Addr::new(*start))
    }

    /// Name of the method whose code begins at `start`: `Ns.Type.Method`.
    pub(super) fn name(&self, names: &Names<'_>, start: Addr) -> Option<String> {
        let row = *self.rows.get(&start.get())?;
        let key = (row.owner, row.name);
        if let Some(known) = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let make = || {
            let metadata = names.metadata()?;
            let owner = match row.owner {
                Owner::Token(token) => without_arity(&metadata.of_token(token)?),
                Owner::Type(at) => names.known(at)?,
            };
            Some(format!("{owner}.{}", metadata.string(row.name)?))
        };
        let made = make();
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
        made
    }

    /// File and line of the code at `offset` of the method that begins at `start`.
    pub(super) fn line(&self, start: Addr, offset: u64) -> Option<(String, u32)> {
        let lines = self.lines.get(&start.get())?;
        let at = lines.points.partition_point(|(from, _)| u64::from(*from) <= offset);
        let (_, line) = lines.points.get(at.checked_sub(1)?)?;
        let begin = u32_at(&self.files, (lines.file as usize).checked_mul(4)?)? as usize;
        let text = self.files.get(begin..)?;
        let text = text.get(..memchr::memchr(0, text)?.min(limits::MAX_METADATA_NAME))?;
        Some((String::from_utf8_lossy(text).into_owned(), *line))
    }

    fn read_lines(&mut self, names: &Names<'_>, sections: &Sections, external: impl Fn(u32) -> Option<Addr>) {
        let runtime = names.runtime();
        let Some((_, bytes)) = sections.bytes(runtime, "MethodLines") else { return };
        let Some((_, files)) = sections.bytes(runtime, "LineDocuments") else { return };
        // Overlapping entries may share bytes, so all points together are bounded by the section.
        let mut left = bytes.len();
        for entry in format::entries(&bytes) {
            if let Some((start, lines)) = lines(&bytes, entry, &mut left, &external) {
                self.lines.insert(start.get(), lines);
            }
        }
        self.files = files;
    }
}

/// Handles of the types whose methods section 327 has. Static classes without a MethodTable are in no other table.
pub(super) fn owners(names: &Names<'_>) -> HashSet<u32> {
    let found = names.sections().and_then(|all| all.bytes(names.runtime(), "MethodNames"));
    let all = found.map_or_else(Vec::new, |(at, bytes)| rows(at, &bytes));
    let tokens = all.into_iter().filter_map(|(_, row)| match row.owner {
        Owner::Token(token) => Some(token),
        Owner::Type(_) => None,
    });
    tokens.collect()
}

/// Rows of section 327, which begins at address `at`. Rows without a name are left out.
fn rows(at: Addr, bytes: &[u8]) -> Vec<(Addr, Row)> {
    let mut out = Vec::new();
    let (mut owner, mut name) = (None, None);
    let mut next = 4;
    let mut row = || -> Option<Option<(Addr, Row)>> {
        let has = *bytes.get(next)?;
        next += 1;
        if has & HAS_OWNER != 0 {
            owner = Some(Owner::Token(u32_at(bytes, next)?));
            next += 4;
        }
        let mut number = || {
            let (number, behind) = format::unsigned(bytes, next)?;
            next = behind;
            Some(number)
        };
        if has & HAS_NAME != 0 {
            name = Some(number()?);
        }
        if has & (HAS_SIGNATURE | HAS_GENERIC_SIGNATURE) != 0 {
            number()?;
        }
        if has & HAS_GENERIC_SIGNATURE != 0 {
            number()?;
        }
        let start = relative(at, bytes, next);
        next += 4;
        Some(start.zip(owner.zip(name)).map(|(start, (owner, name))| (start, Row { owner, name })))
    };
    // Each row has at least five bytes.
    let count = u32_at(bytes, 0).unwrap_or(0).min(bytes.len() as u32);
    for _ in 0..count {
        let Some(found) = row() else { break };
        out.extend(found);
    }
    out
}

/// The method of an entry of section 306: flags, its record, its type, its code.
fn invokable(
    bytes: &[u8],
    entry: usize,
    metadata: &Metadata,
    external: impl Fn(u32) -> Option<Addr>,
) -> Option<(Addr, Row)> {
    let (flags, next) = format::unsigned(bytes, entry)?;
    let (record, next) = format::unsigned(bytes, next)?;
    let (owner, next) = format::unsigned(bytes, next)?;
    let (code, _) = format::unsigned(bytes, next)?;
    if flags == OTHER_FORM {
        return None;
    }
    Some((external(code)?, Row { owner: Owner::Type(external(owner)?), name: metadata.method_name(record)? }))
}

/// The lines of an entry of section 328: the method, a number of points, the file, and for each point the distances to
/// the one before.
fn lines(
    bytes: &[u8],
    entry: usize,
    left: &mut usize,
    external: impl Fn(u32) -> Option<Addr>,
) -> Option<(Addr, Lines)> {
    let (method, next) = format::unsigned(bytes, entry)?;
    let (count, next) = format::unsigned(bytes, next)?;
    let (file, mut next) = format::unsigned(bytes, next)?;
    *left = left.checked_sub(count as usize)?;
    let (mut offset, mut line) = (0_u32, 0_u32);
    let mut points = Vec::new();
    for _ in 0..count {
        let (more, behind) = format::unsigned(bytes, next)?;
        let (lines, behind) = format::signed(bytes, behind)?;
        next = behind;
        offset = offset.checked_add(more)?;
        line = line.checked_add_signed(lines)?;
        points.push((offset, line));
    }
    Some((external(method)?, Lines { file, points }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_row_leaves_out_is_as_in_the_row_before() {
        let at = Addr::new(0x1000);
        let mut bytes = 4_u32.to_le_bytes().to_vec();
        // Hidden, without a name: left out. Then an owner and a name; the next row has only another name.
        let code = |bytes: &mut Vec<u8>, target: u64| {
            let here = at.get() + bytes.len() as u64;
            bytes.extend((target as i64 - here as i64).to_le_bytes().get(..4).unwrap_or_default());
        };
        bytes.push(0x10);
        code(&mut bytes, 0x500);
        bytes.push(HAS_OWNER | HAS_NAME | HAS_SIGNATURE);
        bytes.extend(0x7400_0010_u32.to_le_bytes());
        bytes.extend([20 << 1, 9 << 1]);
        code(&mut bytes, 0x600);
        bytes.extend([HAS_NAME | HAS_GENERIC_SIGNATURE, 30 << 1, 9 << 1, 8 << 1]);
        code(&mut bytes, 0x2700);
        bytes.push(0);
        code(&mut bytes, 0x2800);
        let owner = Owner::Token(0x7400_0010);
        let row = |start, name| (Addr::new(start), Row { owner, name });
        assert_eq!(rows(at, &bytes), [row(0x600, 20), row(0x2700, 30), row(0x2800, 30)]);
        // A count beyond the bytes, and no bytes.
        bytes[0] = 0xff;
        assert_eq!(rows(at, &bytes).len(), 3);
        assert!(rows(at, &[]).is_empty());
    }

    #[test]
    fn points_of_lines_are_distances() {
        // Method 0, two points, file 1: offset 3 on line 10, offset 8 on line 9.
        let bytes = [0, 2 << 1, 1 << 1, 3 << 1, 10 << 1, 5 << 1, 0xfe];
        let found = lines(&bytes, 0, &mut 7, |_| Some(Addr::new(0x500)));
        let Some((start, found)) = found else { panic!("no lines") };
        assert_eq!((start, found.file, found.points), (Addr::new(0x500), 1, vec![(3, 10), (8, 9)]));
        assert!(lines(&bytes, 0, &mut 1, |_| Some(Addr::new(0x500))).is_none(), "more points than bytes");
    }
}
