use serde::Serialize;
use serde_json::{Map, Value};

use crate::commands::diff::{DiffInput, DiffReport};
use crate::commands::record::moment;
use crate::commands::report::answer::PartRow;
use crate::commands::report::gather::{self, Answers, LeftOut, Limits};
use crate::commands::report::page::{self, Pair, View};
use crate::commands::report::pictures::{boxes, flame, strip};
use crate::commands::threads::GroupRow;
use crate::commands::{self, TriageOptions, envelope};
use crate::limits;
use crate::progress::Progress;
use crate::report::{CoreRow, FrameRowKind, SCHEMA_VERSION};
use crate::session::Session;
use crate::shell;
use crate::words::Part;

/// Options of `report`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// Include contents of strings, arguments and values of the environment.
    pub show_data: bool,
}

/// A page and its contents.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The file's contents.
    pub html: String,
    /// Answers in the page.
    pub parts: Vec<PartRow>,
    /// Rows omitted to limit the size.
    pub left_out: Vec<LeftOut>,
}

/// Makes a page about one process.
pub fn report(session: &Session<'_>, options: PageOptions, progress: &Progress) -> Page {
    session.process.target().expect_scan();
    session.process.target().pin();
    let limits = Limits::default();
    let answers = gather::ask(session, &limits, options.show_data, progress);
    fit(session, &answers, None, options)
}

/// Makes a page about a process and its changes since an older core of the same program.
pub fn report_pair(old: &Session<'_>, new: &Session<'_>, options: PageOptions, progress: &Progress) -> Page {
    new.process.target().pin();
    let limits = Limits::default();
    let answers = gather::ask(new, &limits, options.show_data, progress);
    let summary = commands::summary(old, true, progress);
    let triage = commands::triage(old, &TriageOptions::default(), progress);
    let diff = difference(old, new, progress);
    let core = envelope("report", old, ()).core;
    let pair = Pair { core, triage, summary, diff };
    fit(new, &answers, Some(&pair), options)
}

/// Compares the two cores, as `diff` does.
fn difference(old: &Session<'_>, new: &Session<'_>, progress: &Progress) -> DiffReport {
    // Different allocators have different block sizes, so comparing these is useless.
    let alike = old.malloc().is_like(new.malloc());
    let parts = if alike { &[Part::Types, Part::Malloc][..] } else { &[Part::Types] };
    let side = |session: &Session<'_>| (commands::side(session.process), moment(session, parts, progress));
    let (old, new) = (side(old), side(new));
    commands::diff(DiffInput { core: &old.0, moment: &old.1 }, DiffInput { core: &new.0, moment: &new.1 })
}

/// Maximum number of times that the limits are halved until the page fits.
const TRIES: u32 = 6;

fn fit(session: &Session<'_>, answers: &Answers, pair: Option<&Pair>, options: PageOptions) -> Page {
    let mut page = Page::default();
    for halved in 0..=TRIES {
        page = made(session, answers, pair, options, halved);
        if page.html.len() as u64 <= limits::MAX_PAGE {
            break;
        }
    }
    page
}

/// Makes the page with limits halved `halved` times.
fn made(session: &Session<'_>, answers: &Answers, pair: Option<&Pair>, options: PageOptions, halved: u32) -> Page {
    let (data, made) = data(session, answers, pair, options, halved);
    let envelope = envelope("report", session, ());
    let view = View {
        core: &envelope.core,
        path: shell::quoted(&session.process.facts().path),
        answers: &made.answers,
        boxes: &made.boxes,
        flames: &made.flames,
        left_out: &made.left_out,
        warnings: &envelope.warnings,
        limits: &made.limits,
        pair,
        show_data: options.show_data,
    };
    // The data has only numbers, strings and lists, so conversion to JSON cannot fail.
    let text = serde_json::to_string(&data).unwrap_or_default();
    let size = |value: &Value| serde_json::to_string(value).map_or(0, |text| text.len() as u64);
    let parts = data.as_object().into_iter().flatten().filter(|(_, value)| value.is_object());
    let parts = parts.map(|(part, value)| PartRow { part: part.clone(), size: size(value) }).collect();
    Page { html: page::write(&view, &text), parts, left_out: made.left_out }
}

/// The contents of a page, cut to its limits.
pub(super) struct PageContents {
    answers: Answers,
    boxes: boxes::TreemapBox,
    flames: Vec<(&'static str, flame::Merged)>,
    left_out: Vec<LeftOut>,
    limits: Limits,
}

pub(super) fn data(
    session: &Session<'_>,
    answers: &Answers,
    pair: Option<&Pair>,
    options: PageOptions,
    halved: u32,
) -> (Value, PageContents) {
    let mut limits = Limits::default();
    (0..halved).for_each(|_| limits = limits.halved());
    let boxes = boxes::build(answers, limits.boxes);
    let strip = strip::strip(answers, limits.strip);
    let groups = answers.threads.groups.as_deref().unwrap_or_default();
    let mut flames = vec![("all frames", flame::merge(groups, false))];
    let managed = |g: &&GroupRow| g.frames.iter().any(|frame| frame.kind == FrameRowKind::Managed);
    let count = |groups: &mut dyn Iterator<Item = &GroupRow>| groups.map(|g| g.count).sum::<usize>();
    let with = count(&mut groups.iter().filter(managed));
    if with > 0 {
        // The variant that covers most threads is shown first.
        let first = with * 2 >= count(&mut groups.iter());
        flames.insert(usize::from(!first), ("managed frames only", flame::merge(groups, true)));
    }
    let mut kept = answers.clone();
    let mut left_out = gather::cut(&mut kept, &limits);
    let envelope = envelope("report", session, ());
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| drop(data.insert(name.to_owned(), value));
    put("schema_version", SCHEMA_VERSION.into());
    put("coremap", envelope.coremap.into());
    put("command", "report".into());
    put("core", value(&envelope.core));
    put("warnings", value(&envelope.warnings));
    put("show_data", options.show_data.into());
    put("halved", halved.into());
    if let Value::Object(parts) = value(&kept) {
        parts.into_iter().filter(|(_, part)| !part.is_null()).for_each(|(name, part)| put(&name, part));
    }
    if let Some(pair) = pair {
        put("old", value(&Old { core: &pair.core, triage: &pair.triage, summary: &pair.summary }));
        put("diff", value(&gather::cut_diff(&pair.diff, &limits, &mut left_out)));
    }
    put("boxes", value(&boxes));
    put("strip", value(&strip));
    put("left_out", value(&left_out));
    let mut data = Value::Object(data);
    if let Some(cut) = gather::shorten(&mut data) {
        left_out.push(cut);
        if let Value::Object(data) = &mut data {
            data.insert("left_out".to_owned(), value(&left_out));
        }
    }
    (data, PageContents { answers: kept, boxes, flames, left_out, limits })
}

#[derive(Serialize)]
struct Old<'a> {
    core: &'a CoreRow,
    triage: &'a commands::triage::TriageReport,
    summary: &'a commands::summary::SummaryReport,
}

fn value<T: Serialize>(what: &T) -> Value {
    serde_json::to_value(what).unwrap_or_default()
}
