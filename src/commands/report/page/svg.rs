//! Pictures as SVG that need no script. The script redraws only the treemap, to zoom into it.

use crate::commands::report::page::html::Html;
use crate::commands::report::pictures::flame::{Flame, Merged};
use crate::commands::report::pictures::squarify::{Rect, squarify};
use crate::commands::report::pictures::{Family, Look, TreemapBox};
use crate::commands::summary::KindRow;
use crate::report::FrameRowKind;
use crate::sums::SaturatingSum;
use crate::units::{count, human};

/// Width of every picture in its own units.
const WIDTH: f64 = 1180.0;

const TREEMAP: f64 = 440.0;

/// Heights of a bar and of a flame graph's frame.
const BAR: f64 = 40.0;
const FRAME: f64 = 18.0;

/// Approximate widths of a letter and of a bold one.
const LETTER: f64 = 6.8;
const BOLD: f64 = 7.8;

/// Draws one bar divided by kind. `of` returns a kind's bytes and its zero bytes. The full width represents `whole`
/// bytes, or the sum of the kinds if that is larger.
pub(super) fn kind_bar(
    out: &mut Html,
    label: &str,
    kinds: &[KindRow],
    whole: u64,
    of: impl Fn(&KindRow) -> (u64, u64),
) {
    let mut parts: Vec<(&KindRow, u64, u64)> =
        kinds.iter().map(|k| (k, of(k).0, of(k).1)).filter(|p| p.1 > 0).collect();
    parts.sort_by_key(|(kind, bytes, _)| (Family::of(kind.kind), std::cmp::Reverse(*bytes)));
    let total: u64 = parts.iter().map(|p| p.1).saturating_sum();
    let view = format!("0 0 {WIDTH} {BAR}");
    out.open(
        "svg",
        &[
            ("class", &"kinds"),
            ("viewBox", &view),
            ("preserveAspectRatio", &"none"),
            ("role", &"img"),
            ("aria-label", &format!("{label}: {}", human(total))),
            ("data-sum", &total),
        ],
    );
    let mut x = 0.0;
    for (kind, bytes, zero) in parts {
        let width = WIDTH * bytes as f64 / total.max(whole).max(1) as f64;
        let share = zero as f64 / bytes as f64;
        out.open("g", &[("class", &Family::of(kind.kind).class()), ("data-v", &bytes)]);
        out.leaf(
            "title",
            &[],
            format!("{}: {} ({:.1} %)", kind.kind, human(bytes), 100.0 * bytes as f64 / total as f64),
        );
        rect(out, "box", Rect { x, y: 0.0, width, height: BAR });
        if share > 0.0 {
            rect(out, "zero", Rect { x, y: BAR * (1.0 - share), width, height: BAR * share });
        }
        out.close("g");
        x += width;
    }
    out.close("svg");
}

fn rect(out: &mut Html, class: &'static str, r: Rect) {
    out.open(
        "rect",
        &[
            ("class", &class),
            ("x", &format!("{:.1}", r.x)),
            ("y", &format!("{:.1}", r.y)),
            ("width", &format!("{:.1}", r.width.max(0.0))),
            ("height", &format!("{:.1}", r.height.max(0.0))),
        ],
    );
    out.close("rect");
}

fn label(out: &mut Html, class: &'static str, at: (f64, f64), width: f64, text: &str) {
    let room = (width / if class == "big" { BOLD } else { LETTER }) as usize;
    if room < 3 {
        return;
    }
    let long = text.chars().count() > room;
    let mut shown: String = text.chars().take(if long { room - 1 } else { room }).collect();
    if long {
        shown.push('…');
    }
    out.leaf("text", &[("class", &class), ("x", &format!("{:.1}", at.0)), ("y", &format!("{:.1}", at.1))], shown);
}

/// Draws the treemap by written bytes.
pub(super) fn treemap(out: &mut Html, tree: &TreemapBox) {
    let total = tree.bytes.first().copied().unwrap_or(0);
    out.open(
        "svg",
        &[
            ("id", &"treemap"),
            ("viewBox", &format!("0 0 {WIDTH} {TREEMAP}")),
            ("role", &"img"),
            ("aria-label", &format!("Treemap of what was written, by kind and owner: {}", human(total))),
            ("data-sum", &total),
        ],
    );
    let within = tree.children_for(0);
    let values: Vec<u64> = within.iter().map(written).collect();
    let whole = Rect { x: 0.0, y: 0.0, width: WIDTH, height: TREEMAP };
    for (part, place) in within.iter().zip(squarify(&values, whole)) {
        out.open("g", &[("class", &part.class), ("data-v", &written(part))]);
        boxed(out, part, place, 0);
        out.close("g");
    }
    out.close("svg");
}

fn written(part: &TreemapBox) -> u64 {
    part.bytes.first().copied().unwrap_or(0)
}

fn boxed(out: &mut Html, part: &TreemapBox, r: Rect, depth: usize) {
    if r.width < 1.5 || r.height < 1.5 {
        return;
    }
    out.open("g", &[]);
    out.leaf("title", &[], format!("{}: {}", part.name, human(written(part))));
    rect(out, if depth == 0 { "box" } else { "box in" }, r);
    let mut within = if depth < 2 && r.width > 70.0 && r.height > 44.0 { part.children_for(0) } else { Vec::new() };
    // A box with a single child would show the same twice, so the child's contents are drawn.
    while let [only] = within.as_slice() {
        within = only.children_for(0);
    }
    let text = format!("{} {}", part.name, human(written(part)));
    if r.width > 36.0 && r.height > 15.0 {
        label(out, if depth == 0 { "big" } else { "small" }, (r.x + 4.0, r.y + 13.0), r.width - 6.0, &text);
    }
    if !within.is_empty() {
        let values: Vec<u64> = within.iter().map(written).collect();
        let inner = Rect { x: r.x + 2.0, y: r.y + 18.0, width: r.width - 4.0, height: r.height - 20.0 };
        for (child, place) in within.iter().zip(squarify(&values, inner)) {
            boxed(out, child, place, depth + 1);
        }
    }
    out.close("g");
}

/// Draws merged stacks as a flame graph, outermost frames on top. Returns the number of frames that are too narrow to
/// draw.
pub(super) fn flame(out: &mut Html, id: &'static str, title: &str, merged: &Merged, most: usize) -> usize {
    let mut drawing = Drawing { left: most, dropped: 0, deepest: 0, total: merged.root.threads.max(1) };
    let mut body = Html::default();
    drawing.frame(&mut body, &merged.root, 0.0, WIDTH, 0);
    let height = (drawing.deepest + 1) as f64 * FRAME;
    out.open(
        "svg",
        &[
            ("id", &id),
            ("class", &"flame"),
            ("viewBox", &format!("0 0 {WIDTH} {height}")),
            ("role", &"img"),
            ("aria-label", &format!("{title}: {}", count(merged.root.threads, "thread"))),
            ("data-sum", &merged.root.threads),
        ],
    );
    out.part(body).close("svg");
    drawing.dropped
}

struct Drawing {
    left: usize,
    dropped: usize,
    deepest: usize,
    total: u64,
}

impl Drawing {
    fn frame(&mut self, out: &mut Html, node: &Flame, x: f64, width: f64, depth: usize) {
        if width < 0.6 || self.left == 0 {
            self.dropped += 1;
            return;
        }
        self.left -= 1;
        self.deepest = self.deepest.max(depth);
        let y = depth as f64 * FRAME;
        let class = match node.kind {
            Some(FrameRowKind::Managed) => "k-managed",
            Some(_) if node.name.ends_with(" …") => "k-nameless",
            Some(_) => "k-native",
            None => "k-none",
        };
        out.open("g", &[("class", &class), ("data-v", &node.threads), ("data-d", &depth)]);
        let share = 100.0 * node.threads as f64 / self.total as f64;
        out.leaf("title", &[], format!("{}: {}, {share:.0} %", node.name, count(node.threads, "thread")));
        rect(out, "frame", Rect { x, y, width: (width - 0.5).max(0.3), height: FRAME - 1.0 });
        if width > 30.0 {
            label(out, "small", (x + 3.0, y + 13.0), width - 5.0, &node.name);
        }
        out.close("g");
        let mut at = x;
        for child in &node.children {
            let wide = width * child.threads as f64 / node.threads.max(1) as f64;
            self.frame(out, child, at, wide, depth + 1);
            at += wide;
        }
    }
}

/// Writes the meaning of the colours.
pub(super) fn legend(out: &mut Html, kinds: &[KindRow], zero: bool) {
    out.open("p", &[("class", &"legend")]);
    for family in Family::ALL {
        if kinds.iter().any(|kind| Family::of(kind.kind) == family && kind.size > 0) {
            let swatch = format!("swatch {}", family.class());
            out.open("span", &[]).open("i", &[("class", &swatch)]).close("i").text(family.title()).close("span");
        }
    }
    if zero {
        out.open("span", &[]).open("i", &[("class", &"swatch pale")]).close("i").text("pale: zero pages").close("span");
    }
    out.close("p");
}
