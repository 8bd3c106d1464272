//! Baseline code: from a code address to a bytecode offset.
//!
//! Each bytecode is compiled by itself, in order. A table has the code size of each bytecode, so the offset is the sum
//! of the sizes of the bytecodes before (bytecode-offset-iterator.cc). The sizes of bytecodes are in a table of the
//! program (`Bytecodes::kBytecodeSizes`): a row for single operands, one for double, one for quadruple. Its first 20
//! sizes are equal in V8 10 to 14, and occur once in the program.

use crate::addr::AddrRange;
use crate::image::ModuleKind;
use crate::memory::Memory;
use crate::runtimes::v8::stack::positions::unsigned;
use crate::runtimes::v8::vm::Vm;

/// The first sizes of the first row, and those of the second.
const FIRST_ROW: [u8; 20] = [1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2, 1, 1, 1, 1, 2];
const SECOND_ROW: [u8; 8] = [1, 1, 1, 1, 1, 1, 3, 5];

/// Bounds on the number of bytecodes. V8 10 to 14 have 198 to 212.
const BYTECODES: std::ops::Range<usize> = 150..256;

/// Maximum bytes of the program that are searched.
const MAX_SEARCH: u64 = 512 << 20;

/// Number of bytes that are searched at a time.
const STEP: u64 = 4 << 20;

/// Sizes of bytecodes, one row for each operand size.
pub(super) struct BytecodeSizes {
    rows: Vec<Vec<u8>>,
}

impl BytecodeSizes {
    /// Finds the table in the program's read-only data.
    pub(super) fn find(vm: &Vm<'_>) -> Option<BytecodeSizes> {
        let module = vm.process.modules.get(vm.module)?;
        let ModuleKind::Elf(image) = &module.kind else { return None };
        let mut left = MAX_SEARCH;
        for segment in image.segments.iter().filter(|segment| !segment.perms.write) {
            for part in vm.memory.readable_parts(segment.range, left) {
                left = left.saturating_sub(part.len());
                if let Some(found) = BytecodeSizes::search(vm, part) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn search(vm: &Vm<'_>, part: AddrRange) -> Option<BytecodeSizes> {
        let mut at = part.start;
        while at < part.end {
            // A table may be on the border of two steps.
            let len = part.end.since(at).min(STEP + 1024);
            let bytes = vm.bytes(at.get(), len)?;
            let starts = memchr::memmem::find_iter(&bytes, &FIRST_ROW);
            if let Some(found) = starts.into_iter().find_map(|from| BytecodeSizes::of(bytes.get(from..)?)) {
                return Some(found);
            }
            at = at.saturating_add(STEP);
        }
        None
    }

    /// Reads the table at the start of `bytes`.
    fn of(bytes: &[u8]) -> Option<BytecodeSizes> {
        let count = BYTECODES.into_iter().find(|n| bytes.get(*n..n + SECOND_ROW.len()) == Some(&SECOND_ROW))?;
        let row = |i: usize| bytes.get(i * count..(i + 1) * count).map(<[u8]>::to_vec);
        let rows = vec![row(0)?, row(1)?, row(2)?];
        Some(BytecodeSizes { rows })
    }

    /// Returns the size in bytes of the bytecode at the start of `code`, with its prefix.
    fn size(&self, code: &[u8]) -> Option<usize> {
        let first = *code.first()?;
        // Prefixes: Wide is 0, ExtraWide is 1. Their debugger forms are 2 and 3.
        let (row, prefix) = match first {
            0 | 2 => (1, 1),
            1 | 3 => (2, 1),
            _ => (0, 0),
        };
        let size = *self.rows.get(row)?.get(usize::from(*code.get(prefix)?))?;
        Some(prefix + usize::from(size)).filter(|size| *size > 0)
    }

    /// Returns the offset of the bytecode whose code contains `pc`. `pc` is in bytes from the start of the code.
    /// `table` has the code size of the prologue, then of each bytecode.
    pub(super) fn offset(&self, table: &[u8], bytecode: &[u8], pc: u64) -> Option<i64> {
        let mut steps = table.iter();
        let mut end = unsigned(&mut steps)?;
        let (mut at, mut offset) = (0_usize, -1_i64);
        while end < pc {
            let code = bytecode.get(at..).filter(|code| !code.is_empty())?;
            end = end.checked_add(unsigned(&mut steps)?)?;
            offset = i64::try_from(at).ok()?;
            at = at.checked_add(self.size(code)?)?;
        }
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    fn sizes() -> BytecodeSizes {
        let mut row = FIRST_ROW.to_vec();
        row.resize(200, 2);
        let mut second = SECOND_ROW.to_vec();
        second.resize(200, 3);
        let bytes: Vec<u8> = [row.clone(), second, vec![5; 200]].concat();
        BytecodeSizes::of(&bytes).expect("a table")
    }

    #[test]
    fn offsets_follow_from_the_sizes_of_code_and_of_bytecodes() {
        let sizes = sizes();
        // A bytecode of 2 bytes, one of 3, a wide one of 1 + 3, one of 1.
        let bytecode = [12, 9, 7, 9, 9, 0, 6, 9, 9, 4];
        // 16 bytes of prologue, then 8, 200 (in two groups) and 5.
        let table = [16, 8, 0x80 | 72, 1, 5];
        let at = |pc| sizes.offset(&table, &bytecode, pc);
        assert_eq!(
            [at(10), at(16), at(17), at(24), at(25), at(224), at(229)].map(|x| x.unwrap_or(-9)),
            [-1, -1, 0, 0, 2, 2, 5]
        );
        assert_eq!(at(1000), None);
    }

    #[test]
    fn a_table_without_its_second_row_is_none() {
        assert!(BytecodeSizes::of(&FIRST_ROW).is_none());
    }
}
