//! malloc blocks by the variable or other root that holds them.

use crate::analysis::block_graph::{HolderLimits, native_holders};
use crate::commands::holders::report::HoldersReport;
use crate::session::Session;

/// Maximum number of rows of each sort, holders and lost groups.
const MOST: usize = 1000;

/// Lists holders of malloc blocks and groups of lost blocks, at most `limit` rows.
pub fn holders_of_blocks(session: &Session<'_>, limit: Option<usize>) -> HoldersReport {
    let most = limit.unwrap_or(MOST).min(MOST);
    let Some(facts) = native_holders(session, HolderLimits { most, bytes: 0, share: 0 }) else {
        return HoldersReport::default();
    };
    let mut native = facts.rows();
    let more = native.len().saturating_sub(most) as u64;
    native.truncate(most);
    HoldersReport { native, more, used: Some(facts.used), ..HoldersReport::default() }
}
