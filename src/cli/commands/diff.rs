use std::path::Path;

use coremap::analysis::{self, DiffInput, HeapStatOptions, MallocOptions};
use coremap::introspect::introspect;
use coremap::progress::Progress;
use coremap::report::MallocReport;

use crate::cli::args::Common;
use crate::cli::commands::open;
use crate::cli::output::{answer, finish};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, old: &Path, new: &Path) -> Result<Exit, Failure> {
    if old.as_os_str() == "-" && new.as_os_str() == "-" {
        return Err(Failure::Usage("only one of the two cores can come from standard input".into()));
    }
    let before = open(old, common, &progress())?;
    let after = open(new, common, &progress())?;
    let silent = Progress::silent();
    let options = HeapStatOptions::default();
    let first = introspect(&before);
    let old_sum = analysis::summary(&before, &first, false, &silent);
    let old_heap = analysis::heapstat(&before, &first, &options, &silent);
    let found = introspect(&after);
    let new_sum = analysis::summary(&after, &found, false, &silent);
    let new_heap = analysis::heapstat(&after, &found, &options, &silent);
    // Another allocator's blocks can't be compared, and that is no news here.
    let both = !first.malloc.arenas.is_empty() && !found.malloc.arenas.is_empty();
    let blocks = |process, found| match both {
        true => analysis::malloc(process, found, &MallocOptions::default(), &silent),
        false => MallocReport::default(),
    };
    let (old_malloc, new_malloc) = (blocks(&before, &first), blocks(&after, &found));
    let report = analysis::diff(
        DiffInput { process: &before, summary: &old_sum, heap: &old_heap, malloc: &old_malloc },
        DiffInput { process: &after, summary: &new_sum, heap: &new_heap, malloc: &new_malloc },
    );
    // The envelope and its warnings are the newer core's; the older's go first.
    let partial = finish(&before) == Exit::Partial;
    let exit = answer("diff", common, &after, &found, report)?;
    Ok(if partial { Exit::Partial } else { exit })
}
