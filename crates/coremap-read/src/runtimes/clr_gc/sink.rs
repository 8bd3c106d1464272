//! Collects the claims of a runtime.

use crate::addr::AddrRange;
use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::process::Process;

/// Collects the claims of a runtime.
pub(crate) struct Sink<'a> {
    module: usize,
    proven: bool,
    base: &'a Base,
    claims: Claims,
}

impl<'a> Sink<'a> {
    /// An empty sink. `module`: index of the runtime's module. `proven`: whether cores of this version have confirmed
    /// the layout.
    pub(crate) fn new(process: &'a Process, module: usize, proven: bool) -> Sink<'a> {
        Sink { module, proven, base: process.base(), claims: Claims::default() }
    }

    pub(crate) fn into_claims(self) -> Claims {
        self.claims
    }

    pub(crate) fn exact(&mut self, range: AddrRange, kind: Kind, detail: &str, evidence: &str) {
        self.add(range, kind, Confidence::Exact, detail, evidence);
    }

    /// Returns the mapped parts of `range`, each with whether it is writable. gdb writes memory without access as
    /// read-only, so only write access counts.
    pub(crate) fn by_access(&self, range: AddrRange) -> Vec<(AddrRange, bool)> {
        self.base.split(range, |entry| entry.perms.is_some_and(|perms| perms.write))
    }

    pub(crate) fn add(&mut self, range: AddrRange, kind: Kind, confidence: Confidence, detail: &str, evidence: &str) {
        // A corrupt structure may name half the address space. Only ranges that the core maps are claimed.
        if self.base.entries.overlapping(range).next().is_none() {
            return;
        }
        // An unconfirmed layout may be wrong in ways that no check finds, so none of its claims is exact.
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
