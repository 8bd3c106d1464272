//! The heading of the page.

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::units::{count, human};

/// Returns the title: the program and its process.
pub(in crate::commands::report::page) fn title(view: &View<'_>) -> String {
    let process = &view.answers.info.process;
    let base = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
    let named = process.program.clone().filter(|name| !name.is_empty());
    let named = named.or_else(|| process.executable.as_ref().map(base)).or_else(|| process.name.clone());
    let named = named.filter(|name| !name.is_empty()).unwrap_or_else(|| "a process".to_owned());
    match view.core.pid {
        Some(pid) => format!("{named}, pid {pid}"),
        None => named,
    }
}

/// Writes the heading and a line of facts.
pub(super) fn head(out: &mut Html, view: &View<'_>) {
    let core = view.core;
    out.leaf("h1", &[], title(view));
    let live = core.producer == crate::targets::Producer::Live;
    let mut facts = vec![if live {
        "running process".to_owned()
    } else {
        format!("core of {} by {}", human(core.size), core.producer)
    }];
    facts.push(core.arch.to_string());
    for runtime in &core.runtimes {
        let gc = runtime.gc.map_or(String::new(), |gc| format!(" ({gc} GC)"));
        facts.push(format!("{} {}{gc}", runtime.name, runtime.version.as_deref().unwrap_or("(unknown version)")));
    }
    facts.push(count(core.threads as u64, "thread"));
    if let Some(signal) = &view.answers.info.process.signal {
        facts.push(format!("terminated by {}", signal.name));
    }
    if core.truncated {
        facts.push("truncated".to_owned());
    }
    out.leaf("p", &[("class", &"facts")], facts.join(" · "));
    out.open("p", &[("class", &"facts")]).leaf("span", &[("class", &"code")], &core.path);
    if let Some(pair) = view.pair {
        out.text(" compared with ").leaf("span", &[("class", &"code")], &pair.core.path);
    }
    out.text(format!(" · written by coremap {}", env!("CARGO_PKG_VERSION"))).close("p");
}
