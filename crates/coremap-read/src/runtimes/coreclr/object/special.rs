//! Details of delegates, exceptions, tasks and collections.
//!
//! Sources: System.Private.CoreLib: MulticastDelegate.CoreCLR.cs, Task.cs, List.cs, Dictionary.cs, HashSet.cs;
//! src/coreclr/vm: object.h (StackTraceArray), clrex.h (StackTraceElement). Fields are found by name.

use crate::addr::Addr;
use crate::facts::{
    CallRow, CollectionDetail, DelegateDetail, ElementRow, EntryRow, ExceptionDetail, FieldRow, ObjectReport, TraceRow,
};
use crate::limits;
use crate::runtimes::coreclr::heap::MethodTableInfo;
use crate::runtimes::coreclr::object::{HEADER, ReportBuilder};
use crate::runtimes::coreclr::{CodeAt, FieldDesc, Methods};
use crate::words::TaskStatus;

/// Bits of `m_stateFlags` for each status, in the order in which Task.Status tests them (Task.cs).
const TASK_STATES: [(u32, TaskStatus); 7] = [
    (0x20_0000, TaskStatus::Faulted),
    (0x40_0000, TaskStatus::Canceled),
    (0x100_0000, TaskStatus::RanToCompletion),
    (0x80_0000, TaskStatus::WaitingForChildrenToComplete),
    (0x2_0000, TaskStatus::Running),
    (0x1_0000, TaskStatus::WaitingToRun),
    (0x200_0000, TaskStatus::WaitingForActivation),
];

/// An entry of a Dictionary is free if its `next` is below this (Dictionary.cs).
const FIRST_USED: i64 = -1;

/// Fields of an object, by name.
pub(super) struct Fields<'f> {
    pub(super) object: Addr,
    fields: &'f [(String, &'f FieldDesc)],
}

impl Fields<'_> {
    fn at(&self, name: &str) -> Option<Addr> {
        let (_, field) = self.fields.iter().find(|(n, _)| n == name)?;
        Some(self.object.saturating_add(field.offset))
    }
}

impl ReportBuilder<'_, '_> {
    /// Fills in the details for the object's type.
    pub(super) fn special(&mut self, report: &mut ObjectReport, at: Addr, fields: &[FieldDesc]) {
        let types = self.types();
        let named: Vec<_> = fields.iter().map(|f| (types.field_name(f), f)).collect();
        let fields = Fields { object: at, fields: &named };
        let Some(class) = report.method_table else { return };
        for class in types.bases(class) {
            let name = types.display_name(class);
            match name.as_str() {
                "System.Delegate" => report.delegate = Some(self.delegate(&fields)),
                "System.Exception" => report.exception = Some(self.exception(&fields)),
                "System.Threading.Tasks.Task" => report.task_status = self.task_status(&fields),
                _ if name.starts_with("System.Collections.Generic.List<") => {
                    report.collection = self.list(&fields);
                }
                _ if name.starts_with("System.Collections.Generic.Dictionary<")
                    || name.starts_with("System.Collections.Generic.HashSet<") =>
                {
                    report.collection = self.table(&fields);
                }
                name => {
                    report.collection = report.collection.take().or_else(|| self.contents(name, &fields));
                    report.value = report.value.take().or_else(|| self.built_text(name, &fields));
                }
            }
        }
    }

    pub(super) fn object_in(&self, fields: &Fields<'_>, name: &str) -> Option<Addr> {
        self.types().memory.ptr(fields.at(name)?).ok().filter(|o| !o.is_null())
    }

    pub(super) fn int(&self, fields: &Fields<'_>, name: &str) -> Option<u32> {
        self.types().memory.u32(fields.at(name)?).ok()
    }

    pub(super) fn info(&mut self, object: Addr) -> Option<MethodTableInfo> {
        self.method_table(object).filter(|info| !info.free)
    }

    fn task_status(&self, fields: &Fields<'_>) -> Option<TaskStatus> {
        let flags = self.int(fields, "m_stateFlags")?;
        let found = TASK_STATES.iter().find(|(bit, _)| flags & bit != 0);
        Some(found.map_or(TaskStatus::Created, |(_, status)| *status))
    }

    fn delegate(&mut self, fields: &Fields<'_>) -> DelegateDetail {
        let methods = self.runtime.methods();
        // A multicast delegate has an array of delegates, of which the first `_invocationCount` are used. From .NET 11
        // on the array is one of structures that have the reference alone.
        let (list, count) = match fields.at("_helperObject") {
            Some(_) => ("_helperObject", "_extraData"),
            None => ("_invocationList", "_invocationCount"),
        };
        let list = self.object_in(fields, list);
        let array = list.filter(|&l| self.info(l).is_some_and(|i| i.counted() && i.component_size == 8));
        let Some(array) = array else {
            return DelegateDetail { calls: vec![self.call(methods, fields)], more: 0 };
        };
        let memory = self.types().memory;
        let count = fields.at(count).and_then(|a| memory.u64(a).ok()).unwrap_or(0);
        let count = count.min(self.length(array));
        let start = self.data_of(array);
        let mut calls = Vec::new();
        for i in 0..count.min(limits::MAX_SHOWN_METHODS) {
            let Ok(one) = memory.ptr(start.saturating_add(8 * i)) else { break };
            calls.push(self.call(methods, &Fields { object: one, ..*fields }));
        }
        DelegateDetail { more: count - calls.len() as u64, calls }
    }

    fn call(&mut self, methods: &Methods<'_>, fields: &Fields<'_>) -> CallRow {
        let memory = self.types().memory;
        let pointer = |name| fields.at(name).and_then(|a| memory.ptr(a).ok()).filter(|a| !a.is_null());
        // For static methods and open delegates, `_methodPtr` is only a stub that shuffles the arguments.
        let open = pointer("_methodPtrAux");
        let code = open.or_else(|| pointer("_methodPtr"));
        let target = self.object_in(fields, "_target").filter(|_| open.is_none());
        CallRow {
            target,
            target_type: target.and_then(|t| self.names.object(t)).map(|(name, _)| name),
            method: code.and_then(|code| match methods.at(code) {
                Some(CodeAt::Method(method)) => Some(method.name.clone()),
                Some(CodeAt::Stub(_, name)) => name,
                _ => methods.stub_at(code).and_then(|(_, name)| name),
            }),
            code,
        }
    }

    pub(super) fn length(&self, array: Addr) -> u64 {
        u64::from(self.types().view("Array", array).u32("m_NumComponents").unwrap_or(0))
    }

    /// Address of an array's first element.
    pub(super) fn data_of(&mut self, array: Addr) -> Addr {
        let base = self.info(array).map_or(0, |i| u64::from(i.base_size));
        array.saturating_add(base.saturating_sub(HEADER))
    }

    fn exception(&mut self, fields: &Fields<'_>) -> ExceptionDetail {
        let message = self.object_in(fields, "_message");
        let inner = self.object_in(fields, "_innerException");
        let mut detail = ExceptionDetail {
            message: message.and_then(|m| self.text(m, limits::MAX_SHOWN_TEXT)),
            hresult: self.int(fields, "_HResult").map(|h| format!("0x{h:08x}")),
            inner,
            inner_type: inner.and_then(|i| self.names.object(i)).map(|(name, _)| name),
            ..ExceptionDetail::default()
        };
        if let Some(trace) = self.object_in(fields, "_stackTrace") {
            self.frames(&mut detail, trace);
        }
        detail
    }

    /// Reads a stack trace: an array of bytes. From .NET 9 on it may be the first element of an array whose other
    /// elements keep dynamic methods alive.
    fn frames(&mut self, detail: &mut ExceptionDetail, trace: Addr) -> Option<()> {
        let types = self.types();
        let bytes = match self.info(trace)? {
            info if info.component_size == 1 => trace,
            _ => {
                let first = self.data_of(trace);
                types.memory.ptr(first).ok()?
            }
        };
        let info = self.info(bytes).filter(|i| i.component_size == 1)?;
        let length = self.length(bytes);
        let data = bytes.saturating_add(u64::from(info.base_size).saturating_sub(HEADER));
        let layout = &types.runtime.layout;
        let (header, size) = (layout.size("StackTraceArray").ok()?, layout.size("StackTraceElement").ok()?.max(1));
        let room = length.checked_sub(header)? / size;
        let count = u64::from(types.view("StackTraceArray", data).u32("Size").ok()?).min(room);
        for i in 0..count.min(limits::MAX_SHOWN_FRAMES) {
            let element = types.view("StackTraceElement", data.saturating_add(header + i * size));
            let (Ok(ip), Ok(desc)) = (element.ptr("Ip"), element.ptr("MethodDesc")) else { break };
            let method = types.method_desc(desc).ok().map(|d| types.method_name(&d));
            detail.frames.push(TraceRow { ip, method, method_desc: Some(desc) });
        }
        detail.more = count - detail.frames.len() as u64;
        Some(())
    }

    fn list(&mut self, fields: &Fields<'_>) -> Option<CollectionDetail> {
        let count = u64::from(self.int(fields, "_size")?);
        let mut entries = Vec::new();
        if let Some(items) = self.object_in(fields, "_items") {
            let info = self.info(items).filter(MethodTableInfo::counted)?;
            let shown = count.min(self.length(items)).min(limits::MAX_SHOWN_ENTRIES as u64);
            let elements = self.elements(items, &info, 0..shown);
            entries = elements.into_iter().map(|value| EntryRow { key: None, value }).collect();
        }
        Some(CollectionDetail { count, entries })
    }

    /// A Dictionary or HashSet: an array of slots, used up to `_count`, of which `_freeCount` are free again.
    fn table(&mut self, fields: &Fields<'_>) -> Option<CollectionDetail> {
        let used = u64::from(self.int(fields, "_count")?);
        let mut detail = CollectionDetail {
            count: used.checked_sub(u64::from(self.int(fields, "_freeCount")?))?,
            ..CollectionDetail::default()
        };
        let Some(slots) = self.object_in(fields, "_entries") else { return Some(detail) };
        let info = self.info(slots).filter(MethodTableInfo::counted)?;
        let end = used.min(self.length(slots)).min(limits::MAX_SLOTS_TRIED);
        for i in 0..end {
            let Some(slot) = self.elements(slots, &info, i..i + 1).pop() else { break };
            let of = |name: &str| slot.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name));
            let next: i64 = of("next")?.value.as_ref()?.parse().ok()?;
            if next < FIRST_USED {
                continue;
            }
            detail.entries.push(EntryRow { key: of("key").map(element), value: element(of("value")?) });
            if detail.entries.len() >= limits::MAX_SHOWN_ENTRIES {
                break;
            }
        }
        Some(detail)
    }
}

pub(super) fn element(field: &FieldRow) -> ElementRow {
    ElementRow {
        value: field.value.clone(),
        object: field.object,
        object_type: field.object_type.clone(),
        fields: field.fields.clone(),
        ..ElementRow::default()
    }
}
