//! Hides what a page shows only on request: contents of strings, messages, and words of blocks.

use crate::commands::report::gather::Answers;
use crate::report::{ClusterContent, ClusterRow};

/// Removes contents. `info` itself hides the command line and the values of the environment.
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

/// Removes first words, because the first word of a block may be the beginning of a text.
fn words(clusters: &mut [ClusterRow]) {
    for row in clusters.iter_mut().filter(|row| row.kind == ClusterContent::Word) {
        row.first_word = None;
    }
}
