use std::io::{self, Write};

use crate::commands::trend::figures::{ALL_OBJECTS, MMAPPED};
use crate::commands::trend::report::{SeriesRow, TrendReport};
use crate::commands::trend::sentences::amount;
use crate::map::Kind;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{Measure, SeriesClock, SeriesOf, Verdict};
use crate::units::{count, exact, human, seconds};

/// Default number of rows shown.
const DEFAULT_ROWS: usize = 20;

/// Maximum number of growing figures described in a sentence.
const MAX_DESCRIBED: usize = 3;

impl Render for TrendReport {
    fn wants_headline(&self) -> bool {
        false
    }

    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        self.head(&mut doc);
        let rated = self.clock != SeriesClock::Order;
        let mut table = TableBlock::default()
            .text("Verdict")
            .number(if rated { "Per hour" } else { "Per core" })
            .number("First")
            .optional_rank(1)
            .number("Last")
            .number("Samples")
            .optional_rank(4)
            .text("Scope")
            .text("Measure")
            .optional_rank(3)
            .type_name("What")
            .least(24)
            .flexible("Why")
            .cut(Cut::End)
            .least(20)
            .optional_rank(2)
            .brief(DEFAULT_ROWS, "figure");
        table.rows.extend(self.series.iter().map(|row| {
            vec![
                row.verdict.to_string(),
                rate(row, rated),
                amount(row.first as f64, row.measure),
                amount(row.last as f64, row.measure),
                exact(row.looks),
                row.of.to_string(),
                row.measure.to_string(),
                name(row),
                row.why.clone(),
            ]
        }));
        doc.table(table);
        self.below(&mut doc);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.series, out)
    }
}

impl Listing for TrendReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.series]
    }
}

impl TrendReport {
    /// Lists the inputs.
    fn head(&self, doc: &mut Document<'_>) {
        for file in &self.files {
            let form = if file.recording { format!("  {}", count(file.looks, "sample")) } else { String::new() };
            let pid = file.pid.map_or_else(String::new, |pid| format!("  pid {pid}"));
            let name = if file.name.is_empty() { String::new() } else { format!(" ({})", file.name) };
            doc.line(format!("{}{form}{pid}{name}", file.path));
        }
        let span = self.seconds.map_or_else(String::new, |time| format!(" in {}", seconds(time.round())));
        let how = match self.clock {
            SeriesClock::Recorded => "",
            SeriesClock::Modified => ", by file modification time",
            SeriesClock::Given => ", spaced by --every",
            SeriesClock::Order => ", in the order given; their times are unknown (--every TIME sets the interval)",
        };
        let collections = match self.collections {
            Some(seen) => format!("; {} seen", count(seen, "collection")),
            None => String::new(),
        };
        let cost = self.cost.as_ref().and_then(|cost| cost.stopped_ms).map_or_else(String::new, |stopped| {
            format!("; stopped {} ms per sample (max {} ms)", stopped.median, stopped.most)
        });
        doc.line(format!("{}{span}{how}{collections}{cost}", count(self.looks, "sample")));
        doc.line("");
    }

    /// Describes the fastest growth, and counts the verdicts.
    fn below(&self, doc: &mut Document<'_>) {
        let described = self.described();
        if !described.is_empty() {
            doc.line("");
        }
        for row in described {
            doc.line(format!("! {}", growth(row)));
            if let Some(command) = &row.command {
                doc.unwrapped(format!("    {command}"));
            }
        }
        if let Some(time) = self.series.iter().find_map(|row| row.limit_in) {
            let limit = self.limit.map_or_else(String::new, human);
            doc.line(format!("! At this rate the control group reaches its limit of {limit} in {}.", seconds(time)));
        }
        let number = |verdict: Verdict| self.series.iter().filter(|row| row.verdict == verdict).count() as u64;
        let all = Verdict::ALL.iter().map(|v| (*v, number(*v))).filter(|(_, n)| *n > 0);
        let all: Vec<String> = all.map(|(v, n)| format!("{v} {}", exact(n))).collect();
        doc.line("");
        doc.line(format!(
            "· {}: {}. These figures overlap; don't add them up.",
            count(self.series.len() as u64, "figure"),
            all.join(" · ")
        ));
        if number(Verdict::Grows) == 0 {
            doc.line(self.without_growth());
        }
    }

    /// What is known if no figure certainly grows. A figure that rose, but not certainly, may be a leak.
    fn without_growth(&self) -> String {
        let rose = || self.series.iter().filter(|row| row.verdict == Verdict::Unclear && row.change > 0);
        let largest = rose().filter(|row| row.measure != Measure::Count).max_by_key(|row| row.change);
        match largest.or_else(|| rose().next()) {
            None => "· No growth found in these samples.".to_owned(),
            Some(row) => format!(
                "· No growth is certain, but {} rose, most of all {} by {}. Take more samples.",
                count(rose().count() as u64, "unclear figure"),
                subject(row),
                amount(row.change as f64, row.measure)
            ),
        }
    }

    /// The fastest-growing figure of each subject, in its most specific view: a block size is more informative than all
    /// of malloc.
    fn described(&self) -> Vec<&SeriesRow> {
        let growing = || self.series.iter().filter(|row| row.verdict == Verdict::Grows);
        let first =
            |of: &[SeriesOf]| of.iter().find_map(|of| growing().find(|row| row.of == *of && &*row.name != ALL_OBJECTS));
        let blocks = first(&[SeriesOf::MallocSize, SeriesOf::MallocClass, SeriesOf::Malloc]);
        let objects = first(&[SeriesOf::Type]);
        let kinds = growing().filter(|row| row.of == SeriesOf::Kind && row.measure != Measure::Size).filter(|row| {
            let kind = Kind::from_name(&row.name);
            let within = |described: bool, of: fn(Kind) -> bool| described && kind.is_some_and(of);
            !within(blocks.is_some(), Kind::holds_blocks) && !within(objects.is_some(), Kind::holds_objects)
        });
        let threads = first(&[SeriesOf::Threads]);
        let mut described: Vec<&SeriesRow> = kinds.take(MAX_DESCRIBED).chain(blocks).chain(objects).collect();
        described.sort_by(|a, b| b.per_hour.unwrap_or(0.0).total_cmp(&a.per_hour.unwrap_or(0.0)));
        described.extend(threads);
        if described.is_empty() {
            described.extend(growing().next());
        }
        described
    }
}

/// Name of a figure for readers.
fn name(row: &SeriesRow) -> String {
    match row.of {
        SeriesOf::MallocClass => format!("up to {} bytes", thousands(&row.name)),
        SeriesOf::MallocSize => match row.name.strip_suffix(MMAPPED) {
            Some(size) => format!("{} bytes, mmapped", thousands(size)),
            None => format!("{} bytes", thousands(&row.name)),
        },
        _ => row.name.shown(),
    }
}

fn thousands(number: &str) -> String {
    number.parse().map_or_else(|_| number.to_owned(), exact)
}

/// Change per hour, or from core to core.
fn rate(row: &SeriesRow, rated: bool) -> String {
    // The slope of a figure that does not change is noise.
    if matches!(row.verdict, Verdict::Steady | Verdict::Settled | Verdict::Jumped) {
        return "-".to_owned();
    }
    let (value, sign) = match row.per_hour.filter(|_| rated) {
        Some(rate) => (rate, if rate < 0.0 { "-" } else { "+" }),
        None if rated => return "-".to_owned(),
        None => {
            let steps = row.looks.saturating_sub(1).max(1) as f64;
            (row.change as f64 / steps, if row.change < 0 { "-" } else { "+" })
        }
    };
    if value.abs() < 0.5 { "0".to_owned() } else { format!("{sign}{}", amount(value, row.measure)) }
}

/// The subject of a figure, for sentences.
fn subject(row: &SeriesRow) -> String {
    match row.of {
        SeriesOf::MallocSize | SeriesOf::MallocClass => format!("malloc blocks of {}", name(row)),
        SeriesOf::Malloc => format!("malloc, {}", row.name),
        SeriesOf::Type => format!("objects of {}", row.name.shown()),
        _ => row.name.to_string(),
    }
}

/// Describes a growing figure in a sentence.
fn growth(row: &SeriesRow) -> String {
    let what = match row.of {
        SeriesOf::Type => format!("Objects of {}", row.name.shown()),
        SeriesOf::Threads => "Threads".to_owned(),
        _ => subject(row),
    };
    let counted = row.first_count.zip(row.last_count).filter(|(first, last)| first != last);
    let counted =
        counted.map_or_else(String::new, |(first, last)| format!(" (from {} to {})", exact(first), exact(last)));
    let verb = verb(row);
    let by = match row.per_hour {
        Some(rate) => format!("{} per hour", amount(rate, row.measure)),
        None => format!("{} in {}", amount(row.change as f64, row.measure), count(row.looks, "sample")),
    };
    let between = row.per_hour_low.zip(row.per_hour_high).map_or_else(String::new, |(low, high)| {
        format!(" ({} to {})", amount(low, row.measure), amount(high, row.measure))
    });
    let more = row.gib_more_in.map_or_else(String::new, |time| format!("; 1 GiB more in {}", seconds(time)));
    let measure = match row.measure {
        Measure::Bytes | Measure::Count => String::new(),
        other => format!(" ({other})"),
    };
    format!("{what}{measure}{counted} {verb} by {by}{between}{more}.")
}

fn verb(row: &SeriesRow) -> &'static str {
    match row.of {
        SeriesOf::MallocSize | SeriesOf::MallocClass | SeriesOf::Type | SeriesOf::Threads => "grow",
        _ => "grows",
    }
}
