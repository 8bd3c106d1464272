//! Source lines of native code, by .debug_line of files under `--symbols` and of mapped files.
//!
//! Only line programs are read, one after the other. They contain the names of their files (DWARF 5, section 6.2).

use gimli::{AttributeValue, DebugLine, DebugLineOffset, EndianSlice, IncompleteLineProgram, LittleEndian, Reader};

use crate::addr::Addr;
use crate::image::elf::{self, FileSection};
use crate::image::identity;
use crate::image::modules::{ModuleKind, file_name};
use crate::limits;
use crate::process::Process;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Returns the file's name and the line of each address. `None` where no line is known. Addresses of one module share
/// one pass over its line programs.
pub fn source_lines(process: &Process, addresses: &[Addr]) -> Vec<Option<(String, u32)>> {
    let mut out: Vec<Option<(String, u32)>> = vec![None; addresses.len()];
    for module in &process.modules {
        let ModuleKind::Elf(image) = &module.kind else { continue };
        let wanted: Vec<(usize, u64)> = addresses
            .iter()
            .enumerate()
            .filter(|(i, at)| out.get(*i).is_some_and(Option::is_none) && image.range.contains(**at))
            .filter_map(|(i, at)| Some((i, at.checked_sub(image.bias)?.get())))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let own = identity::files_of(process.target(), module, &process.symbols);
        for file in own.chain(identity::debug_files_of(module, &process.symbols)) {
            let Some(sections) = elf::section_table(&file) else { continue };
            if find(&file, &sections, &wanted, &mut out) {
                break;
            }
        }
    }
    out
}

/// Sections with line programs and with the names in them.
struct Sections<'a> {
    lines: Slice<'a>,
    names: Slice<'a>,
    strings: Slice<'a>,
}

/// Finds lines in a file. Returns whether it has line programs.
fn find(file: &[u8], sections: &[FileSection], wanted: &[(usize, u64)], out: &mut [Option<(String, u32)>]) -> bool {
    let section = |name: &str| {
        let bytes = sections.iter().find(|section| section.name == name).and_then(|section| section.bytes(file));
        EndianSlice::new(bytes.unwrap_or_default(), LittleEndian)
    };
    let all =
        Sections { lines: section(".debug_line"), names: section(".debug_line_str"), strings: section(".debug_str") };
    if all.lines.is_empty() || all.lines.len() > limits::MAX_DEBUG_LINES {
        return false;
    }
    let lines = DebugLine::from(all.lines);
    let mut at = 0_usize;
    let mut left = wanted.len();
    while at < all.lines.len() && left > 0 {
        let Ok(program) = lines.program(DebugLineOffset(at), 8, None, None) else { break };
        let header = program.header();
        let width = usize::from(header.format().initial_length_size());
        let Some(next) = at.checked_add(width).and_then(|at| at.checked_add(header.unit_length())) else { break };
        left = left.saturating_sub(rows(program, &all, wanted, out));
        at = next;
    }
    true
}

/// Finds lines in one program. Returns the number of lines found.
fn rows<'a>(
    program: IncompleteLineProgram<Slice<'a>>,
    sections: &Sections<'a>,
    wanted: &[(usize, u64)],
    out: &mut [Option<(String, u32)>],
) -> usize {
    let mut found = 0;
    let mut rows = program.rows();
    // The row before, which is valid up to the next one's address.
    let mut last: Option<(u64, u64, u32)> = None;
    while let Ok(Some((header, row))) = rows.next_row() {
        if let Some((from, file, line)) = last.filter(|(from, ..)| *from < row.address()) {
            for &(i, _) in wanted.iter().filter(|(_, at)| (from..row.address()).contains(at)) {
                let name = header.file(file).and_then(|file| text(sections, file.path_name()));
                if let Some((place, name)) = out.get_mut(i).filter(|place| place.is_none()).zip(name) {
                    *place = Some((file_name(&name).to_owned(), line));
                    found += 1;
                }
            }
        }
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
        last = line.filter(|_| !row.end_sequence()).map(|line| (row.address(), row.file_index(), line));
    }
    found
}

/// The text of an attribute. `None` if its section lacks it.
fn text(sections: &Sections<'_>, value: AttributeValue<Slice<'_>>) -> Option<String> {
    let of = |section: &Slice<'_>, offset: usize| {
        let rest = section.slice().get(offset..)?;
        Some(String::from_utf8_lossy(rest.get(..memchr::memchr(0, rest)?)?).into_owned())
    };
    match value {
        AttributeValue::String(text) => Some(text.to_string_lossy().into_owned()),
        AttributeValue::DebugLineStrRef(offset) => of(&sections.names, offset.0),
        AttributeValue::DebugStrRef(offset) => of(&sections.strings, offset.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_line_programs_has_no_lines() {
        let sections: Vec<FileSection> = Vec::new();
        assert!(!find(&[0xff; 64], &sections, &[(0, 8)], &mut [None]));
    }
}
