use crate::commands::threadpool::report::{PoolRow, QueuedItemRow, ThreadpoolReport};
use crate::commands::threads::{self, ThreadOptions};
use crate::report::{ExecutorRow, Name, ThreadRow};
use crate::runtimes::api::Executor;
use crate::session::Session;
use crate::sums::SaturatingSum;

/// Lists the pools of all runtimes.
pub fn threadpool(session: &Session<'_>) -> ThreadpoolReport {
    let mut report = ThreadpoolReport::default();
    let mut threads: Option<Vec<ThreadRow>> = None;
    for runtime in session.runtimes() {
        let name = Name::from(runtime.row().name);
        // Where both are known, tasks have the exact numbers.
        if let Some(tasks) = runtime.pending_tasks() {
            if !tasks.finds_executors() {
                report.unread.push(runtime.label());
            }
            report.pools.extend(tasks.executors().into_iter().map(|pool| of_row(&name, pool)));
        } else if let Some(facts) = runtime.wait_facts() {
            let rows = threads.get_or_insert_with(|| threads::threads(session, ThreadOptions::default()).threads);
            report.pools.extend(facts.executors(rows).into_iter().map(|pool| of_executor(&name, pool)));
        } else {
            report.unread.push(runtime.label());
        }
    }
    report
}

fn of_row(runtime: &Name, pool: ExecutorRow) -> PoolRow {
    let items: Option<Vec<QueuedItemRow>> =
        pool.queued.map(|queued| queued.into_iter().map(QueuedItemRow::from).collect());
    PoolRow {
        runtime: runtime.clone(),
        kind: pool.kind.to_owned(),
        name: Some(pool.name),
        address: pool.address,
        workers: pool.workers,
        busy: pool.busy,
        min_workers: pool.min_workers,
        max_workers: pool.max_workers,
        tids: pool.tids,
        queued: items.as_deref().map(queued),
        items,
    }
}

fn of_executor(runtime: &Name, pool: Executor) -> PoolRow {
    let number = |threads: &[u32]| u32::try_from(threads.len()).ok();
    let item = |(item, count): (String, u64)| QueuedItemRow { item, count, example: None };
    let items: Vec<QueuedItemRow> = pool.queued.into_iter().map(item).collect();
    PoolRow {
        runtime: runtime.clone(),
        kind: pool.kind,
        name: None,
        address: Some(pool.object),
        workers: number(&pool.workers),
        busy: number(&pool.busy),
        min_workers: None,
        max_workers: None,
        tids: pool.workers,
        queued: Some(queued(&items)),
        items: Some(items),
    }
}

fn queued(items: &[QueuedItemRow]) -> u64 {
    items.iter().map(|item| item.count).saturating_sum()
}
