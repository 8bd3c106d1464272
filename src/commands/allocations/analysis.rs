use crate::bytes::printable;
use crate::commands::allocations::report::{AllocationCountsRow, AllocationSiteRow, AllocationsReport};
use crate::report::{FrameRow, FrameRowKind, Name};
use crate::runtimes::api::{Activation, AllocationCounts, AllocationSite, MethodRole};
use crate::session::Session;
use crate::sums::SaturatingAdd;

/// Lists the stacks that allocated, from the profiles of all runtimes.
pub fn allocations(session: &Session<'_>) -> AllocationsReport {
    let mut out = AllocationsReport::default();
    for runtime in session.runtimes() {
        let Some(profile) = runtime.allocation_profile() else { continue };
        out.rate = out.rate.or(Some(profile.rate));
        out.rate_is_default |= profile.rate_is_default;
        out.sites.extend(profile.sites.iter().map(row));
    }
    for site in &out.sites {
        let (total, of) = (&mut out.total, &site.scaled);
        total.inuse_objects.add_saturating(of.inuse_objects);
        total.inuse_bytes.add_saturating(of.inuse_bytes);
        total.alloc_objects.add_saturating(of.alloc_objects);
        total.alloc_bytes.add_saturating(of.alloc_bytes);
    }
    out
}

fn counts(of: &AllocationCounts) -> AllocationCountsRow {
    AllocationCountsRow {
        inuse_objects: of.inuse_objects,
        inuse_bytes: of.inuse_bytes,
        alloc_objects: of.alloc_objects,
        alloc_bytes: of.alloc_bytes,
    }
}

fn row(site: &AllocationSite) -> AllocationSiteRow {
    let own = site.frames.iter().find(|frame| frame.method.role == MethodRole::Program);
    AllocationSiteRow {
        sampled: counts(&site.sampled),
        scaled: counts(&site.scaled),
        site: own.map(|frame| printable(&frame.method.name).into_owned()),
        position: own.and_then(position),
        frames: site.frames.iter().map(frame).collect(),
    }
}

/// File and line of a frame, as `file:line`.
pub(in crate::commands) fn position(frame: &Activation) -> Option<String> {
    let source = &frame.position.source;
    Some(format!("{}:{}", printable(source.file.as_deref()?), source.line?))
}

fn frame(frame: &Activation) -> FrameRow {
    let source = frame.position.source.clone();
    FrameRow {
        kind: FrameRowKind::Managed,
        method: Some(Name::from(&*frame.method.name)),
        module: Some(Name::from(&*frame.method.module)),
        file: source.file.map(Name::from),
        line: source.line,
        how: frame.position.how,
        own: frame.method.role == MethodRole::Program,
        ..FrameRow::default()
    }
}
