//! Threads as a heap dump has them: the object, and the frames of managed code.

use crate::addr::Addr;
use crate::dotnet::{self, CoreClr};
use crate::export::hprof::{Frame, NATIVE_LINE, NO_LINE, Thread};
use crate::hotspot::HotSpot;
use crate::managed::Root;
use crate::memory::Memory as _;
use crate::process::Process;
use crate::report::{FrameRow, ThreadRow};

/// A thread of a Java VM.
pub(super) fn of_java(vm: &HotSpot<'_>, row: &ThreadRow, roots: &[Root]) -> Thread {
    let object = roots.iter().find(|root| root.kind.name() == "thread object" && root.thread == Some(row.tid));
    let frames = row.frames.iter().filter_map(|row| {
        let info = row.method_desc.and_then(|method| vm.classes().method(method));
        let mut frame = frame(row)?;
        if let Some(info) = info {
            frame.signature = info.descriptor.clone();
            frame.class = Some(info.holder);
            if info.is_native {
                frame.line = NATIVE_LINE;
            }
        }
        Some(frame)
    });
    Thread { tid: Some(row.tid), object: object.map(|root| root.object), frames: frames.collect() }
}

/// The threads of a CoreCLR.
pub(super) fn of_dotnet(process: &Process, runtime: &CoreClr<'_>, rows: &[ThreadRow]) -> Vec<Thread> {
    let known = dotnet::threads(process, runtime.runtime()).map(|(threads, _)| threads).unwrap_or_default();
    let object = |tid: u32| -> Option<Addr> {
        let thread = known.iter().find(|thread| thread.os_id == Some(tid))?;
        process.memory.ptr(thread.exposed_object?).ok().filter(|object| !object.is_null())
    };
    let thread = |row: &ThreadRow| Thread {
        tid: Some(row.tid),
        object: object(row.tid),
        frames: row.frames.iter().filter_map(frame).collect(),
    };
    rows.iter().map(thread).collect()
}

/// A frame of managed code.
fn frame(row: &FrameRow) -> Option<Frame> {
    let whole = row.method.as_ref().filter(|_| row.runtime.is_some())?.to_string();
    let (class, method, arguments) = parts(&whole);
    Some(Frame {
        method: method.to_owned(),
        signature: arguments.to_owned(),
        class: None,
        class_name: class.to_owned(),
        file: row.file.as_ref().map(ToString::to_string).unwrap_or_default(),
        line: row.line.and_then(|line| i32::try_from(line).ok()).unwrap_or(NO_LINE),
        sp: row.sp,
    })
}

/// The class, the name and the arguments of a method. Names of generic types have points and brackets within brackets.
fn parts(whole: &str) -> (&str, &str, &str) {
    let mut depth = 0_u32;
    let (mut point, mut end) = (None, whole.len());
    for (at, c) in whole.char_indices() {
        match c {
            '(' if depth == 0 && at > 0 => {
                end = at;
                break;
            }
            '[' | '<' | '(' => depth += 1,
            ']' | '>' | ')' => depth = depth.saturating_sub(1),
            // A constructor has a point of its own: `Type..ctor`.
            '.' if depth == 0 && (at == 0 || point != Some(at - 1)) => point = Some(at),
            _ => {}
        }
    }
    let (name, arguments) = whole.split_at_checked(end).unwrap_or((whole, ""));
    let split = point.and_then(|at| Some((name.get(..at)?, name.get(at + 1..)?)));
    let (class, method) = split.unwrap_or(("", name));
    (class, method, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_a_class_a_name_and_arguments() {
        assert_eq!(parts("java.lang.Thread.sleep(long)"), ("java.lang.Thread", "sleep", "(long)"));
        assert_eq!(parts("Lab.Plain..ctor(System.String)"), ("Lab.Plain", ".ctor", "(System.String)"));
        assert_eq!(
            parts("A.List`1[[System.__Canon, System.Private.CoreLib]].Add(System.__Canon)"),
            ("A.List`1[[System.__Canon, System.Private.CoreLib]]", "Add", "(System.__Canon)")
        );
        assert_eq!(parts("A.<>c.<Main>b__0_0()"), ("A.<>c", "<Main>b__0_0", "()"));
        assert_eq!(parts("DynamicClass.IL_STUB_PInvoke"), ("DynamicClass", "IL_STUB_PInvoke", ""));
        assert_eq!(parts("plain"), ("", "plain", ""));
    }
}
