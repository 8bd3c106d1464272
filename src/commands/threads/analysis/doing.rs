//! Describes the activity of a thread in a few words: the function in which it waits, and the code that called it.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::bytes::printable;
use crate::commands::threads::analysis::in_runtimes;
use crate::limits;
use crate::process::Process;
use crate::report::WaitKind;
use crate::runtimes::api::{FrameKind, Method, MethodRole, StackFrame};
use crate::session::Session;
use crate::targets::Thread;

use super::rows::module_at;

/// Activity of a thread.
#[derive(Clone, Debug, Default)]
pub struct Doing {
    /// Managed thread id.
    pub managed_id: Option<u32>,
    /// The innermost function, and the code that called it. `None` if neither is known.
    pub text: Option<String>,
}

/// Beginnings of the names of native modules that only wait on behalf of others: the C library and its parts.
const WAIT_MODULES: [&str; 5] = ["libc.", "libc-", "libpthread", "ld-", "[vdso]"];

/// Maximum number of native frames per thread that are named.
const MAX_NATIVE_FRAMES: usize = 32;

/// Separator between the two functions.
const CALLER_SEPARATOR: &str = " ← ";

/// Activity of each thread, by thread id of the system.
pub fn doing(session: &Session<'_>) -> HashMap<u32, Doing> {
    let (process, names) = (session.process, &Names::new(session));
    let runtimes = session.runtimes();
    let walker = session.walker(session.stacks()).at_most(limits::MAX_DOING_FRAMES);
    let mut natives = Natives { process, names, known: HashMap::new() };
    let of_thread = |thread: &Thread| {
        let known = in_runtimes(&runtimes, thread.tid);
        let walk = session.walk(&walker, thread);
        let wait = known.iter().find_map(|(runtime, known)| runtime.locks()?.wait(known, &walk.frames));
        let locked = wait.is_some_and(|w| w.kind == WaitKind::Lock);
        let described = managed(&walk.frames, locked, || natives.first(&walk.frames));
        let described = described.or_else(|| natives.text(&walk.frames));
        let text = described.map(|(text, last)| text + guess(&walk.frames, last));
        (thread.tid, Doing { managed_id: known.first().and_then(|(_, known)| known.id), text })
    };
    process.threads().iter().map(of_thread).collect()
}

/// Returns a suffix if any of the frames up to index `last` is a guess.
fn guess(frames: &[StackFrame], last: usize) -> &'static str {
    if frames.iter().take(last.saturating_add(1)).any(|f| f.trust.is_guess()) { " (guess)" } else { "" }
}

/// Describes managed frames: the innermost method, and the innermost that is not the framework's. Also returns the
/// index of the outer one. `native` returns the innermost native function.
fn managed(frames: &[StackFrame], locked: bool, native: impl FnOnce() -> Option<String>) -> Option<(String, usize)> {
    let methods = || frames.iter().enumerate().filter_map(|(i, f)| Some((i, &**f.method()?)));
    let (_, first) = methods().next()?;
    let own = methods().find(|(_, m)| !is_framework(m));
    let begins = |m: &Method| m.role == MethodRole::ThreadStart;
    let (last, outer) = own.or_else(|| methods().rfind(|(_, m)| !begins(m)))?;
    let top = match is_framework(first) {
        _ if locked => Some("lock".to_owned()),
        true if first.role == MethodRole::NativeCall => native().or_else(|| Some("P/Invoke".to_owned())),
        true => Some(short(&first.name)),
        false => None,
    };
    let outer = if own.is_some() { plain(&outer.name).to_owned() } else { short(&outer.name) };
    let parts: Vec<String> = top.into_iter().filter(|top| *top != outer).chain([outer.clone()]).collect();
    Some((printable(&parts.join(CALLER_SEPARATOR)).into_owned(), last))
}

fn is_framework(method: &Method) -> bool {
    method.role != MethodRole::Program
}

/// Returns a method's name without parameters and type arguments.
fn plain(name: &str) -> &str {
    // A token has the form `module!0x….(method 0x…)`.
    let end = name.find('(').filter(|&at| !name.get(at..).is_some_and(|rest| rest.starts_with("(method")));
    let name = end.and_then(|at| name.get(..at)).unwrap_or(name);
    name.find("[[").and_then(|at| name.get(..at)).filter(|head| head.contains('.')).unwrap_or(name)
}

/// Returns a name without its namespace: `Monitor.Wait` for `System.Threading.Monitor.Wait(System.Object)`.
fn short(name: &str) -> String {
    let name = plain(name);
    if name.contains('!') {
        return name.to_owned();
    }
    // Names of methods may begin with a dot (`.ctor`); names of types and namespaces do not.
    let (owner, method) = match name.rsplit_once("..") {
        Some((owner, method)) => (owner, format!(".{method}")),
        None => match name.rsplit_once('.') {
            Some((owner, method)) => (owner, method.to_owned()),
            None => return name.to_owned(),
        },
    };
    let kind = owner.rsplit('.').next().unwrap_or(owner);
    format!("{kind}.{method}")
}

/// Name of a function, and of its module.
type CodeName = (Option<String>, Option<String>);

/// Describes threads by native frames, if they have no managed code.
struct Natives<'n, 's, 'p> {
    process: &'n Process,
    names: &'n Names<'s, 'p>,
    /// Cache of functions and modules by code address.
    known: HashMap<Addr, CodeName>,
}

impl Natives<'_, '_, '_> {
    /// Name of the innermost function that has one.
    fn first(&mut self, frames: &[StackFrame]) -> Option<String> {
        let native = frames.iter().filter(|f| matches!(f.kind, FrameKind::Native)).take(MAX_NATIVE_FRAMES);
        native.filter_map(|f| self.code_name(f).0).next()
    }

    /// Describes native frames: the innermost function, and the innermost outside the C library. Also returns the index
    /// of the outer one.
    fn text(&mut self, frames: &[StackFrame]) -> Option<(String, usize)> {
        let native =
            frames.iter().enumerate().filter(|(_, f)| matches!(f.kind, FrameKind::Native)).take(MAX_NATIVE_FRAMES);
        let places: Vec<_> = native.map(|(i, f)| (i, self.code_name(f))).collect();
        let waits = |module: &str| WAIT_MODULES.iter().any(|start| module.starts_with(start));
        let name = |(i, (name, _)): &(usize, CodeName)| Some((name.clone()?, *i));
        let module = |(i, (_, module)): &(usize, CodeName)| Some((module.clone()?, *i));
        let own = || places.iter().filter(|(_, (_, module))| module.as_deref().is_some_and(|m| !waits(m)));
        let first = places.iter().find_map(name);
        let outer = own().find_map(name).or_else(|| own().find_map(module));
        match (first, outer) {
            (Some((first, _)), Some((outer, i))) if first != outer => {
                Some((format!("{first}{CALLER_SEPARATOR}{outer}"), i))
            }
            (first, outer) => first.or(outer).or_else(|| places.iter().find_map(module)),
        }
    }

    fn code_name(&mut self, frame: &StackFrame) -> CodeName {
        let code = frame.code();
        if let Some(known) = self.known.get(&code) {
            return known.clone();
        }
        let module = module_at(self.process, code).map(|m| printable(m.name()).into_owned());
        let name = match self.names.code(code) {
            Code::Native(symbol) => Some(printable(&symbol.name).into_owned()),
            _ => None,
        };
        self.known.insert(code, (name.clone(), module.clone()));
        (name, module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_a_ticket() {
        assert_eq!(short("System.Threading.Monitor.Wait(System.Object, Int32)"), "Monitor.Wait");
        assert_eq!(
            short("System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart()"),
            "PortableThreadPool+WorkerThread.WorkerThreadStart"
        );
        assert_eq!(short("System.Object..ctor()"), "Object..ctor");
        assert_eq!(short("Main()"), "Main");
        assert_eq!(plain("Lab.Queue.Wait(Int32, System.String)"), "Lab.Queue.Wait");
        // Without metadata the token is the only name.
        assert_eq!(plain("lab.dll!0x02000069.(method 0x06000177)"), "lab.dll!0x02000069.(method 0x06000177)");
        assert_eq!(plain("Lab.Box.Swap[[System.Int32, System.Private.CoreLib]](Int32)"), "Lab.Box.Swap");
    }
}
