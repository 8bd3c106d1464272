use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::roots::stack_roots;
use crate::bytes::printable;
use crate::commands::stackobjects::report::{StackObjectRow, StackObjectsReport};
use crate::phase::Phase;
use crate::runtimes::api::{CodeAt, ManagedRuntime, ObjectNames, RootKind};
use crate::session::Session;

/// Lists the objects that the stacks of all threads refer to, or that of one thread.
pub fn stackobjects(session: &Session<'_>, tid: Option<u32>) -> StackObjectsReport {
    let mut report = StackObjectsReport::default();
    for (id, runtime) in session.runtimes_by_id() {
        let Some(heap) = runtime.heap() else { continue };
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, heap);
        let roots = session.roots(id);
        let mut names = ObjectNames::new(heap);
        let mut methods: HashMap<Addr, Option<String>> = HashMap::new();
        let on_stack = |kind: RootKind| matches!(kind, RootKind::Stack | RootKind::StackWord);
        let all = roots.all.iter().filter(|root| on_stack(root.kind) && (tid.is_none() || root.thread == tid));
        for root in all {
            let method = root.frame.and_then(|frame| {
                // A call that never returns may be the method's last instruction, so look up the address before.
                let at = if frame.exact { frame.ip } else { frame.ip.saturating_sub(1) };
                methods.entry(at).or_insert_with(|| method_at(runtime, at)).clone()
            });
            let object = if root.interior { names.containing(root.object).unwrap_or(root.object) } else { root.object };
            let (name, size) = names.object(object).unzip();
            report.objects.push(StackObjectRow {
                tid: root.thread,
                address: root.address,
                register: root.register,
                precise: root.kind == RootKind::Stack,
                method,
                object,
                name,
                size,
            });
        }
        report.stacks.merge(&stack_roots(&roots));
        report.not_read.extend(roots.missing.iter().cloned());
        heap.warn_missing();
    }
    report.objects.sort_by_key(|row| (row.tid, row.address, row.register));
    report
}

fn method_at(runtime: &dyn ManagedRuntime, at: Addr) -> Option<String> {
    match runtime.code().code_at(at)? {
        CodeAt::Method(method) => Some(printable(&method.name).into_owned()),
        _ => None,
    }
}
