//! Converts the waits that `threads` shows into facts for the wait graph.

use crate::causes::deadlocks::INITIALISED;
use crate::causes::parties::{HELD, JOINED};
use crate::report::WaitRow;
use crate::runtimes::api::{PartyId, WaitFact, WaitOwner};
use crate::words::WaitKind;

/// Whether only time can end the wait.
pub(super) fn sleeps(row: &WaitRow) -> bool {
    row.kind == WaitKind::Sleep
}

/// Returns the wait of a row. Without an owner, nobody is known who can end it.
pub(super) fn of_row(row: &WaitRow) -> WaitFact {
    let by_thread = |tid, confidence| WaitOwner { party: PartyId::Thread(tid), confidence };
    let named = row.owner.as_ref().and_then(|owner| {
        let party = owner.tid.map(PartyId::Thread).or(owner.task.map(PartyId::Task))?;
        Some(WaitOwner { party, confidence: owner.confidence })
    });
    let owner = named.or_else(|| row.owner_tid.map(|tid| by_thread(tid, row.confidence)));
    let readers = row.reader_tids.iter().map(|&tid| by_thread(tid, row.confidence));
    let mut owners: Vec<WaitOwner> = owner.into_iter().chain(readers).collect();
    owners.sort_by_key(|owner| owner.party);
    owners.dedup_by_key(|owner| owner.party);
    WaitFact {
        object: row.object,
        r#type: row.r#type.clone(),
        owners,
        relation: match row.kind {
            WaitKind::Lock | WaitKind::Mutex | WaitKind::ReaderWriter => HELD,
            WaitKind::Join => JOINED,
            WaitKind::ClassInit => INITIALISED,
            WaitKind::Pulse
            | WaitKind::Notify
            | WaitKind::Park
            | WaitKind::Event
            | WaitKind::Semaphore
            | WaitKind::Task
            | WaitKind::Countdown
            | WaitKind::Barrier
            | WaitKind::Take
            | WaitKind::Add
            | WaitKind::Sleep
            | WaitKind::Condition
            | WaitKind::Once
            | WaitKind::Future
            | WaitKind::Channel
            | WaitKind::Futex => "",
        },
        what: row.class.as_ref().map(|class| format!("the initialisation of class {class}")),
        owner_ended: row.owner_ended,
        idle: row.kind == WaitKind::Take,
        evidence: row.how,
        ..WaitFact::default()
    }
}
