//! What a page does not show unless it is asked to: contents of strings, messages, and words out of blocks.

use crate::commands::report::gather::Answers;
use crate::report::{ClusterContent, ClusterRow};

/// Take contents out. The command line and the environment's values are withheld where `info` is asked.
pub(super) fn withhold(answers: &mut Answers) {
    if let Some(strings) = answers.heapstat.as_mut().and_then(|heap| heap.strings.as_mut()) {
        for row in &mut strings.duplicates {
            row.value.clear();
            row.cut = row.length > 0;
        }
    }
    for thread in &mut answers.threads.threads {
        if let Some(thrown) = &mut thread.exception {
            thrown.message = None;
        }
    }
    answers.malloc.iter_mut().for_each(|malloc| words(&mut malloc.clusters));
    answers.leaks.iter_mut().for_each(|leaks| words(&mut leaks.clusters));
}

/// The first word of a block may be the beginning of a text.
fn words(clusters: &mut [ClusterRow]) {
    for row in clusters.iter_mut().filter(|row| row.kind == ClusterContent::Word) {
        row.first_word = None;
    }
}
