//! Content of the memory around an address without a known owner.

use crate::addr::{AddrRange, PAGE};
use crate::analysis::contents::Destinations;
use crate::commands::whatis::report::{ContentAtRow, WhatisRow};
use crate::limits::MAX_CONTENT_WINDOW;
use crate::memory::content::{filled, stretches, within};
use crate::progress::Progress;
use crate::session::Session;

/// Adds the content of pages to the rows.
pub(super) fn add_contents(session: &Session<'_>, rows: &mut [WhatisRow]) {
    let is_anonymous = |r: &&mut WhatisRow| r.region.as_ref().is_some_and(|r| r.kind.is_anonymous());
    let rows: Vec<&mut WhatisRow> = rows.iter_mut().filter(is_anonymous).collect();
    if rows.is_empty() {
        return;
    }
    let destinations = Destinations::of(session.map());
    for row in rows {
        row.content = around(session, &destinations, row);
    }
}

fn around(session: &Session<'_>, destinations: &Destinations, row: &WhatisRow) -> Option<ContentAtRow> {
    let region = session.map().region_at(row.address)?.range;
    let page = row.address.align_down(PAGE).max(region.start);
    let start = page.saturating_sub(MAX_CONTENT_WINDOW).max(region.start);
    let end = page.saturating_add(MAX_CONTENT_WINDOW).min(region.end);
    let window = AddrRange::new(start, end);
    let runs = filled(session.process.target(), &[window], destinations, &Progress::silent());
    let page = within(&runs, AddrRange::sized(row.address, 1)).next()?.content;
    let stretch = stretches(window, runs).into_iter().find(|stretch| stretch.range.contains(row.address))?;
    let (begins, ends) = (stretch.range.start, stretch.range.end);
    Some(ContentAtRow {
        start: begins,
        end: ends,
        whole: (begins > start || begins == region.start) && (ends < end || ends == region.end),
        content: destinations.describe_makeup(&stretch.makeup)?,
        page: destinations.describe(page),
    })
}
