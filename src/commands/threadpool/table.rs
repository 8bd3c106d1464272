use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::dotnet::{add_unread, none_found};
use crate::commands::threadpool::report::{PoolRow, ThreadpoolReport};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact};

impl Listing for ThreadpoolReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.pools]
    }
}

impl Render for ThreadpoolReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.pools.is_empty() {
            doc.line(none_found("thread pools", &self.unread));
            return doc;
        }
        for (at, pool) in self.pools.iter().enumerate() {
            if at > 0 {
                doc.line("");
            }
            doc.line(head(pool));
            doc.line(format!("    workers: {}", workers(pool)));
            let Some(items) = &pool.items else {
                doc.line("    queued: could not be read");
                continue;
            };
            doc.line(format!("    queued: {}", count(pool.queued.unwrap_or(0), "item")));
            if items.is_empty() {
                continue;
            }
            let mut table = TableBlock::default().number("Queued").text("Example").type_name("Runs");
            table = table.brief(LISTED_ROWS, "kind of item");
            for item in items {
                let example = item.example.map_or_else(|| "-".to_owned(), |at| at.to_string());
                table.rows.push(vec![exact(item.count), example, item.item.clone()]);
            }
            doc.table(table);
        }
        add_unread(&mut doc, "thread pools", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            runtime: &'a str,
            kind: &'a str,
            name: Option<&'a str>,
            address: Option<Addr>,
            workers: Option<u32>,
            busy: Option<u32>,
            min_workers: Option<u32>,
            max_workers: Option<u32>,
            queued: Option<u64>,
        }
        let rows = self.pools.iter().map(|pool| Row {
            runtime: &pool.runtime,
            kind: &pool.kind,
            name: pool.name.as_deref(),
            address: pool.address,
            workers: pool.workers,
            busy: pool.busy,
            min_workers: pool.min_workers,
            max_workers: pool.max_workers,
            queued: pool.queued,
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

fn head(pool: &PoolRow) -> String {
    let at = pool.address.map_or_else(String::new, |at| format!(" at {at}"));
    format!("{}{at}", pool.name.as_deref().unwrap_or(&pool.kind))
}

/// The workers of a pool in words, with its limits.
fn workers(pool: &PoolRow) -> String {
    let Some(all) = pool.workers else { return "could not be read".to_owned() };
    let state = pool.busy.map(|busy| format!("{busy} busy, {} idle", all.saturating_sub(busy)));
    let limits = [("min", pool.min_workers), ("max", pool.max_workers)];
    let limits = limits.into_iter().filter_map(|(word, limit)| Some(format!("{word} {}", exact(u64::from(limit?)))));
    let more: Vec<String> = state.into_iter().chain(limits).collect();
    if more.is_empty() { all.to_string() } else { format!("{all} ({})", more.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_shown_with_what_is_known_of_them() {
        let pool = PoolRow { workers: Some(24), busy: Some(20), ..PoolRow::default() };
        assert_eq!(workers(&pool), "24 (20 busy, 4 idle)");
        let limited = PoolRow { min_workers: Some(4), max_workers: Some(32_767), ..pool };
        assert_eq!(workers(&limited), "24 (20 busy, 4 idle, min 4, max 32,767)");
        assert_eq!(workers(&PoolRow { workers: Some(2), ..PoolRow::default() }), "2");
        assert_eq!(workers(&PoolRow::default()), "could not be read");
    }
}
