use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::commands::gcroot::GcRootTypesReport;
use crate::commands::retained::RetainedRow;
use crate::commands::whatis::WhatisRow;
use crate::map::Confidence;
use crate::report::{Kept, RootPathRow};

/// `why`: what is at an address, what keeps it, and what it keeps.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WhyReport {
    /// The address.
    pub address: Addr,
    /// Whether something keeps it.
    pub kept: Kept,
    /// The answer in sentences.
    pub text: String,
    /// The evidence for it.
    pub evidence: String,
    /// Confidence in `kept`. `null` if it is `unknown` or `absent`.
    pub confidence: Option<Confidence>,
    /// What was not read, and may keep it.
    pub not_read: Vec<String>,
    /// What is at the address, as `whatis` shows it.
    pub whatis: WhatisRow,
    /// Object whose roots are in `paths`: the object at the address, or the object that owns the native memory there.
    /// `null` if it is no managed memory.
    pub object: Option<Addr>,
    /// Paths from roots to that object, as `gcroot` shows them.
    pub paths: Vec<RootPathRow>,
    /// Whether there may be more paths.
    pub more_paths: bool,
    /// The object or malloc block with what it retains, as `retained` shows it. `null` if there is none.
    pub retained: Option<RetainedRow>,
    /// Its dominators, nearest first: each keeps it alone.
    pub dominators: Vec<RetainedRow>,
}

/// `why --type`: what keeps the objects of some types.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WhyTypesReport {
    /// The answer in sentences.
    pub text: String,
    /// The evidence for it.
    pub evidence: String,
    /// Whether something keeps some of the objects.
    pub kept: Kept,
    /// Confidence in `kept`. `null` if it is `unknown` or `absent`.
    pub confidence: Option<Confidence>,
    /// What keeps them, as `gcroot --type` shows it.
    #[serde(flatten)]
    pub roots: GcRootTypesReport,
}
