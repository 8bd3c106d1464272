//! Where a runtime's claims go.

use crate::addr::AddrRange;
use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::process::Process;

/// Where a runtime's claims go.
pub(crate) struct Sink<'a> {
    module: usize,
    proven: bool,
    base: &'a Base,
    claims: Claims,
}

impl<'a> Sink<'a> {
    /// None yet; `module`: which the runtime is in; `proven`: whether cores of its version have proven the layout.
    pub(crate) fn new(process: &'a Process, module: usize, proven: bool) -> Sink<'a> {
        Sink { module, proven, base: process.base(), claims: Claims::default() }
    }

    /// What was claimed.
    pub(crate) fn into_claims(self) -> Claims {
        self.claims
    }

    pub(crate) fn exact(&mut self, range: AddrRange, kind: Kind, detail: &str, evidence: &str) {
        self.add(range, kind, Confidence::Exact, detail, evidence);
    }

    pub(crate) fn add(&mut self, range: AddrRange, kind: Kind, confidence: Confidence, detail: &str, evidence: &str) {
        // A structure that lies may name half the address space: only what the
        // core maps is worth a claim.
        if self.base.entries.overlapping(range).next().is_none() {
            return;
        }
        // The numbers of a layout that no core of this version has proven may be wrong in what no check sees.
        let proven = self.proven || confidence != Confidence::Exact;
        self.claims.add(Claim {
            range,
            kind,
            confidence: if proven { confidence } else { Confidence::Derived },
            owner: Owner::Module(self.module as u32),
            detail: detail.into(),
            evidence: evidence.into(),
        });
    }
}
