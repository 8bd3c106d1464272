//! Frames as findings name them.

use crate::report::FrameRow;
use crate::words::FrameRowKind;

/// Returns frames of the program. If there are managed ones, only those.
pub(super) fn own_frames(frames: &[FrameRow]) -> impl Iterator<Item = &FrameRow> {
    let managed = frames.iter().any(|frame| frame.runtime.is_some());
    frames.iter().filter(move |frame| frame.own && frame.runtime.is_some() == managed)
}

/// Returns the library's method that the program's innermost method called, in managed code.
pub(super) fn library(frames: &[FrameRow]) -> Option<String> {
    let library = frames.iter().take_while(|frame| !frame.own);
    library.filter(|frame| frame.runtime.is_some() && frame.method.is_some()).last().map(title)
}

/// Whether a function has no name of its own, such as `<lambda>`. Rust's begin with a bracket too:
/// `<Index as Lookup>::find`.
pub(super) fn is_nameless(title: &str) -> bool {
    title.starts_with('<') && !title.contains("::")
}

/// Whether a managed frame without a name is above the program's own frames.
pub(super) fn is_blind(frames: &[FrameRow]) -> bool {
    let nameless = |frame: &FrameRow| {
        frame.method.is_none() && frame.module.as_deref().is_some_and(|module: &str| module.ends_with(".dll"))
    };
    frames.iter().take_while(|frame| !frame.own).any(nameless)
}

/// Returns the name of a method without its parameters and type arguments.
pub(super) fn title(frame: &FrameRow) -> String {
    let (None, Some(module), Some(offset)) = (&frame.method, &frame.module, frame.offset) else {
        return method_title(frame);
    };
    format!("{}+{offset:#x}", module.shown())
}

/// Returns the title of a frame that has a name.
fn method_title(frame: &FrameRow) -> String {
    let name = frame.method.as_deref().unwrap_or("code without a name");
    let cut = match frame.kind {
        // A native name may begin with a bracket: `(anonymous namespace)::f`.
        FrameRowKind::Native => name.rfind('(').filter(|at| *at > 0),
        // A token has the form `module!0x….(method 0x…)`.
        _ => name.find('(').filter(|at| *at > 0 && !name.get(*at..).is_some_and(|rest| rest.starts_with("(method"))),
    };
    let name = cut.and_then(|at| name.get(..at)).unwrap_or(name);
    // The class may have type arguments: `Sorter`1[[A.Row, app]].Sort`.
    match name.find("[[").zip(name.rfind("]]")) {
        Some((from, to)) if from < to => {
            let rest = name.get(to..).and_then(|rest| rest.strip_prefix("]]")).unwrap_or_default();
            format!("{}{rest}", name.get(..from).unwrap_or(name))
        }
        Some((from, _)) => name.get(..from).unwrap_or(name).to_owned(),
        None => name.find("[[").and_then(|at| name.get(..at)).unwrap_or(name).to_owned(),
    }
}

/// File name and line of a frame: `shop.js:12`.
pub(super) fn source(frame: &FrameRow) -> Option<String> {
    let file = frame.file.as_deref()?;
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    Some(frame.line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_no_parameters_and_no_type_arguments() {
        let of = |method: &str| {
            title(&FrameRow { kind: FrameRowKind::Managed, method: Some(method.into()), ..FrameRow::default() })
        };
        assert_eq!(of("A.Sorter`1[[System.Int32, core]].Sort(Int32)"), "A.Sorter`1.Sort");
        assert_eq!(of("A.Desk.Find[[System.Int32, core]](Int32)"), "A.Desk.Find");
        assert_eq!(of("A.Desk.Find"), "A.Desk.Find");
    }
}
