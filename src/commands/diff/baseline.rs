//! Reads the output of `summary --json`, as the older side of a `diff` when the
//! core is gone.

use serde_json::Value;
use thiserror::Error;

use crate::commands::diff::report::DiffSide;
use crate::commands::summary::{BaseRow, KindRow, SummaryReport, TotalRow};
use crate::map::Kind;
use crate::report::SCHEMA_VERSION;
use crate::targets::Producer;

/// A summary that was read back.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The core that it describes.
    pub core: DiffSide,
    /// The summary, without findings.
    pub summary: SummaryReport,
}

/// Why a file is not a summary.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// The file is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The file is JSON, but not a summary.
    #[error("not an answer of `coremap summary --json`: {0}")]
    Form(String),
}

impl Baseline {
    /// Whether a file begins like JSON. No core does, compressed or not.
    pub fn is_json(start: &[u8]) -> bool {
        start.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{')
    }

    /// Reads the output of `summary --json`. `path` is its origin.
    ///
    /// # Errors
    /// [`BaselineError`]
    pub fn parse(path: &str, text: &[u8]) -> Result<Baseline, BaselineError> {
        let v: Value = serde_json::from_slice(text)?;
        let version = &v["schema_version"];
        if version != SCHEMA_VERSION {
            return Err(form(format!(
                "schema_version is {version}, but this version of coremap reads {SCHEMA_VERSION}"
            )));
        }
        if v["command"] != "summary" {
            return Err(form(format!("it is an answer of {}", v["command"])));
        }
        let list = v["kinds"].as_array().ok_or_else(|| form("it has no kinds".into()))?;
        let kinds = list.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let t = &v["total"];
        let total = TotalRow {
            count: number(t, "count")?,
            size: number(t, "size")?,
            in_core: number(t, "in_core")?,
            zero: t["zero"].as_u64(),
            written: t["written"].as_u64(),
            ..TotalRow::default()
        };
        let sum = kinds.iter().map(|k| k.size).fold(0, u64::saturating_add);
        if sum != total.size {
            return Err(form(format!("its kinds add up to {sum} bytes, but its total is {}", total.size)));
        }
        let core = &v["core"];
        let producer = core["producer"].as_str().unwrap_or_default();
        Ok(Baseline {
            core: DiffSide {
                path: path.to_owned(),
                pid: core["pid"].as_u64().and_then(|p| u32::try_from(p).ok()),
                producer: Producer::ALL.iter().copied().find(|p| p.name() == producer).unwrap_or_default(),
                threads: usize::try_from(number(core, "threads")?).unwrap_or(usize::MAX),
                truncated: core["truncated"] == true,
            },
            summary: SummaryReport {
                base: BaseRow { source: Producer::Unknown.lists(), size: total.size, in_core: total.in_core },
                kinds,
                total,
                rss: None,
                malloc: None,
                findings: Vec::new(),
                conditions: Vec::new(),
            },
        })
    }
}

fn kind(row: &Value) -> Result<KindRow, BaselineError> {
    let name = row["kind"].as_str().unwrap_or_default();
    let kind = Kind::from_name(name)
        .ok_or_else(|| form(format!("unknown kind '{name}'; write the summary again with this version")))?;
    Ok(KindRow {
        kind,
        count: number(row, "count")?,
        size: number(row, "size")?,
        in_core: number(row, "in_core")?,
        largest: number(row, "largest")?,
        zero: row["zero"].as_u64(),
        written: row["written"].as_u64(),
        ..KindRow::default()
    })
}

fn number(row: &Value, name: &str) -> Result<u64, BaselineError> {
    row[name].as_u64().ok_or_else(|| form(format!("'{name}' is missing or not a number")))
}

fn form(text: String) -> BaselineError {
    BaselineError::Form(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#" {"schema_version":1,"command":"summary",
        "core":{"pid":7,"producer":"kernel","threads":3,"truncated":false},
        "kinds":[{"kind":"Stack","count":2,"size":8192,"in_core":4096,"largest":4096,"zero":null,"written":null}],
        "total":{"count":2,"size":8192,"in_core":4096,"zero":null,"written":null}}"#;

    #[test]
    fn a_summary_is_read_back() -> Result<(), BaselineError> {
        assert!(Baseline::is_json(GOOD.as_bytes()) && !Baseline::is_json(b"\x7fELF") && !Baseline::is_json(b""));
        let b = Baseline::parse("base.json", GOOD.as_bytes())?;
        assert_eq!((b.core.pid, b.core.producer, b.core.threads), (Some(7), Producer::Kernel, 3));
        assert_eq!(
            (b.summary.kinds[0].kind, b.summary.kinds[0].size, b.summary.total.in_core),
            (Kind::Stack, 8192, 4096)
        );
        Ok(())
    }

    #[test]
    fn what_is_no_summary_is_told() {
        let why = |from: &str, to: &str| match Baseline::parse("x", GOOD.replace(from, to).as_bytes()) {
            Ok(_) => panic!("taken with {to}"),
            Err(e) => e.to_string(),
        };
        assert!(why("\"summary\"", "\"heap\"").contains("heap"));
        assert!(why("\"schema_version\":1", "\"schema_version\":9").contains("9"));
        assert!(why("\"Stack\"", "\"Fog\"").contains("Fog"));
        assert!(why("\"threads\":3", "\"threads\":-3").contains("threads"));
        assert!(why("\"largest\":4096", "\"largest\":\"4096\"").contains("largest"));
        assert!(why("8192,\"in_core\":4096,\"largest\"", "1,\"in_core\":4096,\"largest\"").contains("add up"));
        assert!(why("}}", "").contains("not JSON"));
    }
}
