use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::dotnet::syncblocks::report::{LockThreadRow, SyncBlocksReport};
use crate::commands::dotnet::{nothing, rest};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::Name;
use crate::units::count;

fn thread(t: &LockThreadRow) -> String {
    match (t.tid, t.managed_id, t.address) {
        (Some(tid), Some(id), _) => format!("{tid} ({id})"),
        (Some(tid), None, _) => tid.to_string(),
        (None, Some(id), _) => format!("managed {id}"),
        (None, None, Some(at)) => at.to_string(),
        (None, None, None) => "?".into(),
    }
}

/// Maximum number of waiting threads named. The others are counted; JSON lists all.
const WAITERS: usize = 3;

/// Shows the locks that threads wait for, of all runtimes whose locks are read.
const ELSEWHERE: &str = "; `coremap threads` shows what each thread waits for";

impl Listing for SyncBlocksReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.blocks]
    }
}

impl Render for SyncBlocksReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.blocks.is_empty() {
            let what = if self.unread.is_empty() { "sync blocks" } else { "locks" };
            doc.line(nothing(what, &self.unread, ELSEWHERE));
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
        rest("locks", &self.unread).into_iter().for_each(|line| doc.line(line));
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
