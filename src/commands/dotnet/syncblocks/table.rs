use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::dotnet::syncblocks::report::{LockRow, LockThreadRow, SyncBlocksReport};
use crate::commands::dotnet::{add_unread, empty_line};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::Name;
use crate::units::count;
use crate::words::LockKind;

fn thread(t: &LockThreadRow) -> String {
    match (t.tid, t.managed_id, t.address) {
        (Some(tid), Some(id), _) => format!("{tid} ({id})"),
        (Some(tid), None, _) => tid.to_string(),
        (None, Some(id), _) => format!("managed id {id}"),
        (None, None, Some(at)) => at.to_string(),
        (None, None, None) => "?".into(),
    }
}

/// Table of the locks.
fn locks<'a>(rows: &[LockRow]) -> TableBlock<'a> {
    let mut table = TableBlock::default()
        .text("Kind")
        .text("Object")
        .flexible("Owner")
        .number("Times")
        .flexible("Waiting")
        .type_name("Type")
        .brief(LISTED_ROWS, "lock");
    for lock in rows {
        table.rows.push(vec![
            lock.kind.to_string(),
            lock.address.map_or_else(|| "-".into(), |at| at.to_string()),
            owner(lock),
            if lock.times > 0 { lock.times.to_string() } else { "-".into() },
            waiting(lock),
            lock.name.as_ref().map_or_else(|| "-".into(), Name::shown),
        ]);
    }
    table
}

fn owner(lock: &LockRow) -> String {
    match &lock.owner {
        Some(owner) if lock.owner_ended => match owner.managed_id {
            Some(id) => format!("ended (managed id {id})"),
            None => format!("ended ({})", thread(owner)),
        },
        Some(owner) => match (owner.tid, &owner.name) {
            (Some(tid), Some(name)) => format!("{tid} \"{name}\""),
            _ => thread(owner),
        },
        None if !lock.readers.is_empty() => format!("readers {}", listed(&lock.readers)),
        None => "none".into(),
    }
}

/// The first threads of a list by their ids, and how many more there are.
fn listed(threads: &[LockThreadRow]) -> String {
    let id = |t: &LockThreadRow| t.tid.map_or_else(|| thread(t), |tid| tid.to_string());
    let first: Vec<String> = threads.iter().take(LISTED_THREADS).map(id).collect();
    match threads.len().saturating_sub(LISTED_THREADS) {
        0 => first.join(" "),
        more => format!("{} and {more} more", first.join(" ")),
    }
}

fn waiting(lock: &LockRow) -> String {
    let mut parts = Vec::new();
    if !lock.waiters.is_empty() {
        let pulse = if lock.kind == LockKind::MonitorWait { " (for a pulse)" } else { "" };
        parts.push(format!("{}: {}{pulse}", lock.waiters.len(), listed(&lock.waiters)));
    }
    if lock.unknown_waiters > 0 {
        parts.push(format!("{} not known", lock.unknown_waiters));
    }
    if lock.async_waiters > 0 {
        parts.push(format!("{} async", lock.async_waiters));
    }
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

/// Maximum number of threads of a lock that the table names. The others are counted; JSON lists all.
const LISTED_THREADS: usize = 8;

/// Maximum number of waiting threads named. The others are counted; JSON lists all.
const WAITERS: usize = 3;

/// Shows the locks that threads wait for, of all runtimes whose locks are read.
const ELSEWHERE: &str = "; `coremap threads` shows what each thread waits for";

impl Listing for SyncBlocksReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.blocks, &mut self.locks]
    }
}

impl Render for SyncBlocksReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if !self.locks.is_empty() {
            doc.table(locks(&self.locks));
            doc.line(format!("{} held or waited for", count(self.locks.len() as u64, "lock")));
        }
        if self.blocks.is_empty() {
            let what = if self.unread.is_empty() || !self.locks.is_empty() { "sync blocks" } else { "locks" };
            // A runtime may have locks and no such structures at all.
            if self.locks.is_empty() || !self.unread.is_empty() {
                doc.line(empty_line(what, &self.unread, ELSEWHERE));
            }
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Index")
            .text("Object")
            .text("Owner")
            .number("Held")
            .number("Waiting")
            .text("In Wait")
            .optional()
            .type_name("Type")
            .brief(LISTED_ROWS, "sync block");
        for b in &self.blocks {
            let first: Vec<String> = b.pulse.iter().take(WAITERS).map(thread).collect();
            let more = b.pulse.len().saturating_sub(WAITERS);
            let pulse = match (b.pulse.len(), more) {
                (0, _) => String::new(),
                (n, 0) => format!("{n}: {}", first.join(", ")),
                (n, more) => format!("{n}: {} and {more} more", first.join(", ")),
            };
            table.rows.push(vec![
                b.index.to_string(),
                b.object.to_string(),
                b.owner.as_ref().map_or_else(String::new, thread),
                if b.held { b.recursion.to_string() } else { String::new() },
                if b.waiting > 0 { b.waiting.to_string() } else { String::new() },
                pulse,
                b.name.as_ref().map_or_else(|| "-".into(), Name::shown),
            ]);
        }
        doc.table(table);
        let held = self.blocks.iter().filter(|b| b.held).count();
        doc.line(format!("{}, {} held", count(self.blocks.len() as u64, "sync block"), count(held as u64, "lock")));
        add_unread(&mut doc, "locks", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            index: u32,
            address: Option<Addr>,
            object: Addr,
            r#type: Option<&'a str>,
            held: bool,
            owner: Option<u32>,
            recursion: u32,
            waiting: u32,
            pulse: usize,
        }
        let rows = self.blocks.iter().map(|b| Row {
            index: b.index,
            address: b.address,
            object: b.object,
            r#type: b.name.as_deref(),
            held: b.held,
            owner: b.owner.as_ref().and_then(|o| o.tid),
            recursion: b.recursion,
            waiting: b.waiting,
            pulse: b.pulse.len(),
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}
