//! Bytes that malloc blocks and native roots retain.

use crate::addr::Addr;
use crate::analysis::block_graph::{NativeRetained, RetainedBlock, with_block_owners};
use crate::commands::retained::analysis::RetainedOptions;
use crate::commands::retained::report::{RetainedReport, RetainedRow, RetainedTypeRow, RootSumRow};
use crate::diag::WarningCode;
use crate::limits;
use crate::report::ObjectsRow;
use crate::runtimes::graph::GraphError;
use crate::session::Session;

/// Fills the report with malloc blocks. Does nothing if there are none.
pub(super) fn add_blocks(session: &Session<'_>, options: &RetainedOptions, report: &mut RetainedReport) {
    let added = with_block_owners(session, |owners| add(&owners.retained(), options, report));
    if let Some(Err(e)) = added {
        session.process.diag.partial(WarningCode::Limit, format!("classes of malloc blocks are missing: {e}"));
    }
}

fn add(
    retained: &NativeRetained<'_, '_, '_>,
    options: &RetainedOptions,
    report: &mut RetainedReport,
) -> Result<(), GraphError> {
    let (held, lost) = retained.totals();
    report.native = true;
    report.live = ObjectsRow::default().plus(held.count, held.bytes);
    report.unreachable = ObjectsRow::default().plus(lost.count, lost.bytes);
    let mut several = held.bytes;
    for kind in retained.roots() {
        several = several.saturating_sub(kind.retained);
        report.roots.push(RootSumRow { root_kind: kind.kind, count: kind.count, retained: kind.retained });
    }
    report.several = several;
    if let Some(at) = options.object {
        let Some(found) = retained.block(at) else { return Ok(()) };
        let mut above = found.dominator;
        report.object = Some(row(retained, found));
        while let Some(block) = above.filter(|_| report.dominators.len() < limits::MAX_SHOWN_DOMINATORS) {
            let Some(found) = retained.block(block) else { break };
            above = found.dominator;
            report.dominators.push(row(retained, found));
        }
    }
    let most = options.top.min(limits::MAX_TOP);
    let is_picked = |name: &str| options.name.as_ref().is_none_or(|wanted| wanted.is_match(name));
    let searched = if options.name.is_some() { limits::MAX_TOP } else { most };
    let blocks = retained.blocks(searched, options.object).into_iter().filter(|block| is_picked(&block.name));
    report.objects = blocks.take(most).map(|block| row(retained, block)).collect();
    let classes = retained.classes(options.object)?.into_iter().filter(|class| is_picked(&class.name));
    report.types = classes
        .map(|class| RetainedTypeRow {
            method_table: class.table,
            name: class.name.into(),
            count: class.own.count,
            size: class.own.bytes,
            retained: class.retained,
        })
        .collect();
    report.more_types = report.types.len().saturating_sub(most) as u64;
    report.types.truncate(most);
    Ok(())
}

fn row(retained: &NativeRetained<'_, '_, '_>, block: RetainedBlock) -> RetainedRow {
    let dominator = block.dominator.and_then(|at| retained.block(at));
    let mut out = RetainedRow {
        object: block.start,
        name: Some(block.name.into()),
        size: Some(block.size),
        retained: (!block.lost).then_some(block.retained),
        dominator: block.dominator,
        dominator_type: dominator.map(|above| above.name.into()),
        dominator_field: block.word.map(|offset| format!("(+{offset:#x})").into()),
        ..RetainedRow::default()
    };
    if block.dominator.is_none() && !block.lost {
        out.root_kind = Some(
            block
                .root
                .as_ref()
                .map_or("several", |(root, _)| root.kind.map_or("memory", |kind| kind.name()))
                .to_owned(),
        );
        out.root_kinds = out.root_kind.iter().filter(|kind| *kind != "several").cloned().collect();
        out.root_address = block.root.as_ref().map(|(_, at)| *at).filter(|at| *at != Addr::NULL);
        out.thread = block.root.as_ref().and_then(|(root, _)| root.thread);
        out.root_name = block.root.map(|(root, _)| root.name);
    }
    out
}
