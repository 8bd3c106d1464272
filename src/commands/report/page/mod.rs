//! Writes the page: one file that a browser can show from anywhere. Its content security policy allows only its own
//! style and script, by their hashes, and no request at all. Data of a core is always text (`html.rs`).

mod html;
mod sections;
mod svg;
mod table;

use crate::commands::diff::DiffReport;
use crate::commands::report::gather::{Answers, LeftOut, Limits};
use crate::commands::report::page::html::Html;
use crate::commands::report::pictures::{TreemapBox, flame::Merged};
use crate::commands::summary::SummaryReport;
use crate::commands::triage::TriageReport;
use crate::report::CoreRow;

/// Frame, style and script of a page. They are separate files so that editors recognise their languages.
const FRAME: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// SHA-256 of style and script: a browser accepts these two and no others. After a change, a test prints the new ones.
const STYLE_HASH: &str = "iJ6RMqIDvXpP4TfPzKxN7XHS9TjTnXgKxzq+dxMDEDQ=";
const SCRIPT_HASH: &str = "J0aBEsAgAjVdbBFD4FAO6S8RV09UtkIjPdADcLav1K8=";

/// Data shown on a page.
pub(super) struct View<'a> {
    pub(super) core: &'a CoreRow,
    /// The core's path, quoted for a shell.
    pub(super) path: String,
    pub(super) answers: &'a Answers,
    pub(super) boxes: &'a TreemapBox,
    /// Merged stacks: with all frames, and with managed frames only, if there are any.
    pub(super) flames: &'a [(&'static str, Merged)],
    pub(super) left_out: &'a [LeftOut],
    pub(super) warnings: &'a [crate::diag::Warning],
    pub(super) limits: &'a Limits,
    pub(super) pair: Option<&'a Pair>,
    pub(super) show_data: bool,
}

/// Figures of an older core of the same program, and the comparison with it.
#[derive(serde::Serialize)]
pub(super) struct Pair {
    pub(super) core: CoreRow,
    pub(super) triage: TriageReport,
    pub(super) summary: SummaryReport,
    pub(super) diff: DiffReport,
}

/// Writes the page, with `data` as its embedded JSON.
pub(super) fn write(view: &View<'_>, data: &str) -> String {
    let mut body = Html::default();
    sections::all(&mut body, view);
    let mut title = Html::default();
    title.text(format!("coremap: {}", sections::head::title(view)));
    // Each placeholder is replaced once, in order. The replacements are not searched for placeholders.
    let mut out = String::with_capacity(FRAME.len() + STYLE.len() + SCRIPT.len() + 2 * data.len());
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((mark, after)) = after.split_once("}}") else { break };
        match mark {
            "policy" => out.push_str(&policy()),
            "title" => out.push_str(&std::mem::take(&mut title).into_string()),
            "style" => out.push_str(STYLE),
            "body" => out.push_str(&std::mem::take(&mut body).into_string()),
            "data" => out.push_str(&html::json_in_script(data)),
            "script" => out.push_str(SCRIPT),
            _ => {}
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The content security policy: only what is in the file may be loaded or run, and nothing may be sent.
fn policy() -> String {
    format!(
        "default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; style-src 'sha256-{STYLE_HASH}'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_frame_has_each_part_once() {
        for part in ["policy", "title", "style", "body", "data", "script"] {
            assert_eq!(FRAME.matches(&format!("{{{{{part}}}}}")).count(), 1, "{part}");
        }
        // The hashes cover the text between the tags, which an end tag within it would cut short.
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</"));
        assert!(FRAME.contains("<style>{{style}}</style>") && FRAME.contains("<script>{{script}}</script>"));
    }

    #[test]
    fn the_hashes_are_those_of_style_and_script() {
        let hash = |text: &str| data_encoding::BASE64.encode(&Sha256::digest(text.as_bytes()));
        assert_eq!(
            (STYLE_HASH, SCRIPT_HASH),
            (&*hash(STYLE), &*hash(SCRIPT)),
            "write these into STYLE_HASH and SCRIPT_HASH"
        );
    }

    #[test]
    fn the_policy_names_hashes_and_nothing_else() {
        let policy = policy();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    }
}
