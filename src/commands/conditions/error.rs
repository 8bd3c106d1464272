use crate::commands::conditions::Scope;
use crate::map::Kind;
use crate::report::FINDING_IDS;

/// Reasons why a text is not a condition. Most messages name what is allowed instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// No finding has this id.
    #[error("unknown finding '{name}'; the findings are {}", findings())]
    Finding {
        /// As given.
        name: String,
    },
    /// `triage` has no figures to compare.
    #[error("triage takes conditions of the form finding=NAME, such as 'finding=deadlock'")]
    OnlyFindings,
    /// The text has no comparison.
    #[error("{}", form(*scope))]
    Form {
        /// Scope of the condition.
        scope: Scope,
    },
    /// The text before the comparison has no column.
    #[error("{}; the column is missing", form(*scope))]
    NoColumn {
        /// Scope of the condition.
        scope: Scope,
    },
    /// The comparison does not exist.
    #[error("unknown comparison; use >, >=, <, <= or ==")]
    Comparison,
    /// No kind has this name.
    #[error("unknown kind '{name}'; use total, threads, {}", kinds())]
    Kind {
        /// As given.
        name: String,
    },
    /// The subject has no such column.
    #[error("unknown column '{name}'; {whose} {}", .all.join(", "))]
    Column {
        /// As given.
        name: String,
        /// The subject and its verb, such as "threads have".
        whose: &'static str,
        /// Columns of the subject.
        all: &'static [&'static str],
    },
    /// The limit is not a number.
    #[error("'{text}' is not a size, number or percentage; write 1GiB, 500MB or 10%")]
    Limit {
        /// As given.
        text: String,
    },
    /// The column is a count, but the limit is a size.
    #[error("this column is a count: '{text}' cannot be a size")]
    Count {
        /// As given.
        text: String,
    },
    /// The unit does not exist.
    #[error("unknown unit '{unit}'; use KiB, MiB, GiB, TiB (1,024), KB, MB, GB, TB (1,000), B or %")]
    Unit {
        /// As given, in lower case.
        unit: String,
    },
    /// The limit on the total is a percentage of the total.
    #[error("a percentage is a share of the total, so it cannot limit the total itself")]
    ShareOfTotal,
    /// The limit on the number of threads is a percentage.
    #[error("a number of threads cannot be a percentage")]
    ShareOfThreads,
}

fn form(scope: Scope) -> String {
    let example = match scope {
        Scope::Triage => "finding=deadlock",
        Scope::Summary => "stack.written>1GiB",
        Scope::Diff => "gcheap.delta>20%",
    };
    format!("a condition is KIND.COLUMN, a comparison and a size or percentage, such as '{example}'")
}

fn findings() -> String {
    let all: Vec<&str> = FINDING_IDS.iter().map(|(id, _)| *id).collect();
    all.join(", ")
}

fn kinds() -> String {
    let all: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
    all.join(", ")
}
