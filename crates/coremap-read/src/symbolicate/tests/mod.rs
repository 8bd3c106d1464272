//! Excerpts of real texts, and hostile texts.

mod hostile;
mod others;
mod perf;

use std::collections::BTreeMap;

use super::*;
use crate::addr::AddrRange;

/// Functions by start: (end, name, kind).
#[derive(Default)]
pub(super) struct Fake(BTreeMap<u64, (u64, &'static str, Kind)>);

impl Fake {
    fn managed(functions: &[(u64, u64, &'static str)]) -> Fake {
        Fake(functions.iter().map(|&(start, end, name)| (start, (end, name, Kind::Managed))).collect())
    }

    fn native(functions: &[(u64, u64, &'static str)]) -> Fake {
        Fake(functions.iter().map(|&(start, end, name)| (start, (end, name, Kind::Native))).collect())
    }
}

impl Namer for Fake {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        let (&start, &(end, name, kind)) = self.0.range(..=ip.get()).next_back()?;
        (ip.get() < end).then(|| Resolved {
            symbol: name.into(),
            offset: Some(ip.get() - start),
            kind,
            module: Some("lab.dll".into()),
            ..Resolved::default()
        })
    }
}

fn mapping(start: u64, len: u64, file_offset: u64, path: &str, executable: Option<bool>) -> Mapping {
    Mapping { range: AddrRange::sized(Addr::new(start), len), file_offset, path: path.into(), executable }
}

fn rewritten(text: &[u8], namer: &dyn Namer, mappings: &[Mapping], options: &Options) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    match rewrite(&mut &text[..], &mut out, namer, mappings, options) {
        Ok(summary) => (out, summary),
        Err(e) => panic!("{e}"),
    }
}

/// Returns the rewritten text.
fn named(text: &str, namer: &dyn Namer, mappings: &[Mapping]) -> (String, Summary) {
    let (out, summary) = rewritten(text.as_bytes(), namer, mappings, &Options::default());
    (String::from_utf8_lossy(&out).into_owned(), summary)
}

fn folded(text: &str, namer: &dyn Namer, mappings: &[Mapping], options: &Options) -> String {
    let mut out = Vec::new();
    if let Err(e) = fold(&mut text.as_bytes(), &mut out, namer, mappings, options) {
        panic!("{e}");
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn row(summary: &Summary, printed: u64) -> &FrameRow {
    let Some(row) = summary.frames.iter().find(|r| r.printed == printed) else { panic!("{printed:x} is not listed") };
    row
}
