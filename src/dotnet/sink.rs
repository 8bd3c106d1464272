//! Where a runtime's claims go.

use crate::addr::AddrRange;
use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::process::Process;

/// Where a runtime's claims go.
pub(crate) struct Sink<'a> {
    module: usize,
    base: &'a Base,
    claims: Claims,
}

impl<'a> Sink<'a> {
    /// None yet; `module`: which the runtime is in.
    pub(crate) fn new(process: &'a Process, module: usize) -> Sink<'a> {
        Sink { module, base: process.base(), claims: Claims::default() }
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
        self.claims.add(Claim {
            range,
            kind,
            confidence,
            owner: Owner::Module(self.module as u32),
            detail: detail.into(),
            evidence: evidence.into(),
        });
    }
}
