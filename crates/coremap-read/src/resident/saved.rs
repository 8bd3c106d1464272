//! A smaps file saved with a core: checks that it is of the same process, and of the same moment.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::smaps::{self, Smaps};
use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::{Diagnostics, WarningCode};
use crate::limits;
use crate::range_map::RangeMap;
use crate::targets::residence::{Figure, MappingResidence};
use crate::targets::{Facts, Perms, Residence};
use crate::units::{count, exact, human};

/// Why a saved smaps can't be used for a core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The file can't be read.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a smaps.
    #[error("{path} {what}")]
    NoSmaps {
        /// Path of the file.
        path: String,
        /// Description of the file.
        what: &'static str,
    },
    /// The file has other addresses than the core.
    #[error(
        "{path} is of another process: {matched} of the core's {of} mappings are in one of the file's {there}. A \
         restarted process has other addresses"
    )]
    OtherProcess {
        /// Path of the file.
        path: String,
        /// Number of the core's mappings that are within one of the file's.
        matched: usize,
        /// Number of mappings in the core.
        of: usize,
        /// Number of mappings in the file.
        there: usize,
    },
}

/// Reads the saved smaps at `path` for the process described by `facts`. Differences from the core become warnings in
/// `diag`.
///
/// # Errors
/// [`SavedError`], if the file can't be read, is not a smaps, or is of another process.
pub fn read(path: &Path, facts: &Facts, diag: &Diagnostics) -> Result<Residence, SavedError> {
    let name = printable(&path.to_string_lossy()).into_owned();
    let opened = File::open(path).and_then(|file| smaps::read(&mut BufReader::new(file.take(limits::MAX_SMAPS))));
    let smaps = opened.map_err(|source| SavedError::Io { path: name.clone(), source })?;
    if smaps.mappings.is_empty() {
        let what = match &smaps {
            Smaps { rollup: Some(_), .. } => "is a smaps_rollup, which has only sums; save /proc/PID/smaps",
            Smaps { impossible: 1.., .. } => "has figures that exceed their mappings; save /proc/PID/smaps",
            Smaps { left_out: 1.., .. } => "has mappings without figures, like /proc/PID/maps; save /proc/PID/smaps",
            _ => "has no mappings with an Rss; save /proc/PID/smaps",
        };
        return Err(SavedError::NoSmaps { path: name, what });
    }
    let (matched, of) = matching(facts, &smaps.mappings);
    if matched.saturating_mul(2) < of {
        return Err(SavedError::OtherProcess { path: name, matched, of, there: smaps.mappings.len() });
    }
    warn_differences(&smaps, &name, (matched, of), facts, diag);
    Ok(smaps.into_residence(name))
}

/// Warns about missing text, and about differences from the core.
fn warn_differences(smaps: &Smaps, name: &str, (matched, of): (usize, usize), facts: &Facts, diag: &Diagnostics) {
    if let Some(warning) = smaps.warning(name) {
        diag.add(warning);
    }
    if smaps.cut {
        diag.partial(
            WarningCode::SmapsCut,
            format!(
                "{name} is cut off within a mapping: residence of that mapping and of all \
                                           higher addresses is unknown"
            ),
        );
    }
    let gone: Vec<&MappingResidence> = smaps
        .mappings
        .iter()
        .filter(|m| m.figures.get(Figure::Rss) > 0 && !is_kernels(m.range) && !is_mapped(facts, m.range))
        .collect();
    if matched < of || !gone.is_empty() {
        let mut text =
            format!("{} of {} of the core are in {name}", exact(matched as u64), count(of as u64, "mapping"));
        if !gone.is_empty() {
            let rss = gone.iter().map(|m| m.figures.get(Figure::Rss)).fold(0, u64::saturating_add);
            let (n, rss) = (count(gone.len() as u64, "other"), human(rss));
            text.push_str(&format!("; the file alone has {n} with {rss} resident"));
        }
        text.push_str(". The process mapped and unmapped memory in between, or the core leaves mappings out");
        diag.note(WarningCode::SmapsDiffers, text);
    }
    let own = facts.process.as_ref().map(|process| process.pid).filter(|&pid| pid != 0);
    if let (Some(there), Some(own)) = (smaps.status.pid.filter(|pid| Some(*pid) != own), own) {
        let why = "a process has another ID when seen from outside its container";
        diag.note(WarningCode::SmapsPid, format!("{name} says process {there}, the core says process {own}; {why}"));
    }
}

/// Returns the number of the core's mappings, and how many of them are within a mapping of the text with the same
/// access. The latter comes first.
fn matching(facts: &Facts, there: &RangeMap<MappingResidence>) -> (usize, usize) {
    let space = &facts.space;
    let loaded = space.mappings.iter().map(|m| (m.range, Some(m.perms)));
    let listed = space.files.iter().filter(|f| space.mapping_at(f.range.start).is_none()).map(|f| (f.range, None));
    let (mut matched, mut of) = (0, 0);
    for (range, perms) in loaded.chain(listed).filter(|(range, _)| !range.is_empty() && !is_kernels(*range)) {
        of += 1;
        let same = there.at(range.start).filter(|m| m.range.covers(&range));
        // gdb writes mappings without access as read-only.
        let alike = |m: Perms| perms.is_none_or(|own| (own.write, own.exec) == (m.write, m.exec));
        matched += usize::from(same.is_some_and(|m| alike(m.perms)));
    }
    (matched, of)
}

fn is_mapped(facts: &Facts, range: AddrRange) -> bool {
    let space = &facts.space;
    space.pieces.overlapping(range).next().is_some() || space.is_listed_in(range)
}

/// Whether `range` is in the kernel's half of the address space: `[vsyscall]`, which every process has at the same
/// address.
fn is_kernels(range: AddrRange) -> bool {
    const LOWEST: Addr = Addr::new(1 << 63);
    range.start >= LOWEST
}
