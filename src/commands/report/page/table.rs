//! Tables of a page. They are plain HTML that needs no script. Numbers carry their exact value, which scripts sort by
//! and tests add up.

use std::fmt::Display;

use crate::addr::Addr;
use crate::commands::report::page::html::Html;
use crate::targets::threads::tid_text;
use crate::units::{exact, human};

pub(super) enum Cell {
    /// Text.
    Text(String),
    /// A name from the process.
    Code(String),
    /// An address, which is never wrapped.
    Address(Addr),
    /// Bytes. `None` if unknown.
    Size(Option<u64>),
    /// A number. `None` if unknown.
    Count(Option<u64>),
    /// A number used as a name, without digit grouping. `None` if unknown.
    Id(Option<u32>),
    /// A change in bytes. `None` if unknown.
    SizeChange(Option<i64>),
    /// A change of a number. `None` if unknown.
    CountChange(Option<i64>),
    /// A share from 0 to 1, as a bar with its percentage.
    Share(Option<f64>),
    /// Shares of the largest row's bytes, each from 0 to 1, longest first. Drawn on top of each other.
    Bars(Vec<f64>),
    /// A text preceded by the colour of a family.
    Coloured(&'static str, String),
    /// A confidence.
    Sure(&'static str),
}

pub(super) struct Table {
    /// Id in the page.
    pub(super) id: &'static str,
    /// Description for readers who cannot see the table's surroundings.
    pub(super) caption: String,
    /// Names of the columns, and whether they contain numbers.
    pub(super) columns: Vec<(&'static str, bool)>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// Rows for sums and omitted rows. They stay in place when rows are sorted or filtered.
    pub(super) foot: Vec<Vec<Cell>>,
    /// Whether scripts offer a filter.
    pub(super) filter: bool,
}

impl Table {
    pub(super) fn new(id: &'static str, caption: impl Into<String>, columns: &[(&'static str, bool)]) -> Table {
        Table {
            id,
            caption: caption.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
            foot: Vec::new(),
            filter: false,
        }
    }

    pub(super) fn write(&self, out: &mut Html) {
        let filter: &dyn Display = if self.filter { &"yes" } else { &"no" };
        out.open("div", &[("class", &"scroll"), ("tabindex", &0), ("role", &"region"), ("aria-label", &self.caption)]);
        out.open("table", &[("id", &self.id), ("data-filter", filter)]);
        out.leaf("caption", &[], &self.caption);
        out.open("thead", &[]).open("tr", &[]);
        for (title, number) in &self.columns {
            out.leaf("th", &[("scope", &"col"), ("class", if *number { &"n" } else { &"t" })], title);
        }
        out.close("tr").close("thead").open("tbody", &[]);
        self.rows.iter().for_each(|row| write_row(out, row));
        out.close("tbody");
        if !self.foot.is_empty() {
            out.open("tfoot", &[]);
            self.foot.iter().for_each(|row| write_row(out, row));
            out.close("tfoot");
        }
        out.close("table").close("div");
    }
}

fn write_row(out: &mut Html, row: &[Cell]) {
    out.open("tr", &[]);
    row.iter().for_each(|cell| write_cell(out, cell));
    out.close("tr");
}

fn write_cell(out: &mut Html, cell: &Cell) {
    let number = |out: &mut Html, value: &dyn Display, text: String| {
        out.leaf("td", &[("class", &"n"), ("data-v", value)], text);
    };
    match cell {
        Cell::Text(text) => {
            out.leaf("td", &[], text);
        }
        Cell::Code(text) => {
            out.leaf("td", &[("class", &"code")], text);
        }
        Cell::Address(at) => {
            out.leaf("td", &[("class", &"code addr")], at);
        }
        Cell::Size(Some(bytes)) => number(out, bytes, human(*bytes)),
        Cell::Count(Some(n)) => number(out, n, exact(*n)),
        Cell::Id(Some(tid)) => number(out, tid, tid_text(*tid)),
        Cell::Size(None)
        | Cell::Count(None)
        | Cell::SizeChange(None)
        | Cell::CountChange(None)
        | Cell::Id(None)
        | Cell::Share(None) => {
            out.leaf("td", &[("class", &"n")], "–");
        }
        Cell::SizeChange(Some(change)) => number(out, change, signed(*change, human)),
        Cell::CountChange(Some(change)) => number(out, change, signed(*change, exact)),
        Cell::Share(Some(share)) => {
            out.open("td", &[("class", &"n share"), ("data-v", share)]);
            bars(out, &[*share]);
            out.leaf("span", &[], percent(*share)).close("td");
        }
        Cell::Bars(parts) => {
            out.open("td", &[]);
            bars(out, parts);
            out.close("td");
        }
        Cell::Coloured(class, text) => {
            out.open("td", &[]).open("i", &[("class", &format!("swatch {class}"))]).close("i").text(text).close("td");
        }
        Cell::Sure(word) => {
            out.open("td", &[]).leaf("span", &[("class", &format!("sure-{word}"))], word).close("td");
        }
    }
}

/// Formats a share: `12.3 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a change: `+1.50 MiB`, or `0`.
pub(super) fn signed(change: i64, shown: fn(u64) -> String) -> String {
    match change {
        0 => "0".to_owned(),
        n if n > 0 => format!("+{}", shown(n.unsigned_abs())),
        n => format!("−{}", shown(n.unsigned_abs())),
    }
}

fn bars(out: &mut Html, parts: &[f64]) {
    let view: &dyn Display = &"0 0 100 8";
    out.open(
        "svg",
        &[("class", &"bar"), ("viewBox", view), ("preserveAspectRatio", &"none"), ("aria-hidden", &"true")],
    );
    for (part, class) in parts.iter().zip(["b1", "b2", "b3"]) {
        // A share above 0 is always visible.
        let width = if *part > 0.0 { (part * 100.0).clamp(0.6, 100.0) } else { 0.0 };
        out.open("rect", &[("class", &class), ("width", &format!("{width:.2}")), ("height", &8)]).close("rect");
    }
    out.close("svg");
}
