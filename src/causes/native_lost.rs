//! Native blocks that no pointer reaches, with the line that allocated them.

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::units::{count, exact, round};

/// Minimum bytes of lost blocks for a warning.
const LARGE: u64 = 16 << 20;

/// Lost blocks that one line allocated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    /// The tool that recorded the line.
    pub(crate) tracer: &'static str,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    /// Size of each block. `None` if they differ.
    pub(crate) size: Option<u64>,
    pub(crate) example: Addr,
    /// Number of blocks whose address is stored as a number in an object.
    pub(crate) numbers: u64,
}

impl Lost {
    pub(crate) fn add(&mut self, block: Addr, size: u64) {
        if self.blocks == 0 {
            (self.example, self.size) = (block, Some(size));
        }
        self.size = self.size.filter(|known| *known == size);
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(size);
    }
}

pub(crate) fn finding(lost: &Lost) -> Finding {
    let file = lost.file.rsplit('/').next().unwrap_or(&lost.file);
    let each = lost.size.map_or_else(String::new, |size| format!(" of {} bytes", exact(size)));
    let (who, is_lost) = match lost.numbers {
        0 => ("no pointer leads to them".to_owned(), true),
        n if n == lost.blocks => {
            ("no pointer leads to them, but objects have their addresses as numbers".to_owned(), false)
        }
        n => (format!("no pointer leads to them, but objects have the addresses of {} as numbers", exact(n)), false),
    };
    let text = format!(
        "{}{each} ({}), allocated at {file}:{} ({}): {who}.",
        count(lost.blocks, "native block"),
        round(lost.bytes),
        lost.line,
        lost.tracer
    );
    let severity = if is_lost && lost.bytes >= LARGE { Severity::Warning } else { Severity::Info };
    let evidence = format!("{}'s table; search for pointers in all memory of the core", lost.tracer);
    let id = if is_lost { "native-lost" } else { "native-holder" };
    let finding = Finding::new(id, severity, text, evidence).about(lost.bytes).known(Confidence::Derived);
    finding.more(format!("refs {}", lost.example)).within("malloc").fingerprinted(format!("{file}:{}", lost.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_blocks_are_told_by_their_line_and_numbers_are_references() {
        let mut lost = Lost { tracer: "tracemalloc", file: "/srv/tiles.py".into(), line: 24, ..Lost::default() };
        (0..400).for_each(|i| lost.add(Addr::new(0x1000 * (i + 1)), 65_536));
        let found = finding(&lost);
        assert_eq!(
            found.text,
            "400 native blocks of 65,536 bytes (25 MiB), allocated at tiles.py:24 (tracemalloc): no pointer leads to them."
        );
        assert_eq!((found.id, found.severity), ("native-lost", Severity::Warning));
        lost.numbers = 400;
        let found = finding(&lost);
        assert_eq!((found.id, found.severity), ("native-holder", Severity::Info));
        assert!(found.text.contains("as numbers"), "{}", found.text);
    }
}
