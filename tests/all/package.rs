//! What goes with the program: its version, completions and manual pages.

use std::path::Path;
use std::process::Command;

use crate::support::run::run;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8(out.stdout).unwrap().trim().to_owned())
}

#[test]
fn the_version_names_the_commit() {
    let told = run(["--version"]).exits(0).stdout.clone();
    let rest = told.trim_end().strip_prefix(concat!("coremap ", env!("CARGO_PKG_VERSION"))).unwrap();
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_none() || std::env::var_os("COREMAP_COMMIT").is_some() {
        eprintln!("skipped: these sources are in no git checkout of their own, or the packager named the commit");
        return;
    }
    let commit = rest.strip_prefix(" (").and_then(|r| r.strip_suffix(')')).unwrap_or_else(|| panic!("{told}"));
    let commit = commit.strip_suffix(", modified").unwrap_or(commit);
    assert_eq!(commit.len(), 12, "{told}");
    assert!(git(&["rev-parse", "HEAD"]).unwrap().starts_with(commit), "{told}");
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = run(["completions", shell]).exits(0).stdout.clone();
        for word in ["heapstat", "zero-fill", "gcroot", "symbols"] {
            assert!(text.contains(word), "{shell} does not know {word}");
        }
    }
    run(["completions", "no-shell"]).exits(2);
}

#[test]
fn bash_completes() {
    let script = r#"
        source <("$0" completions bash) || exit 9
        COMP_WORDS=(coremap summ) COMP_CWORD=1
        _coremap coremap summ coremap
        echo "${COMPREPLY[*]}"
    "#;
    let out = match Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_coremap")]).output() {
        Ok(out) => out,
        Err(e) => return eprintln!("skipped: no bash: {e}"),
    };
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "summary", "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn every_command_has_a_manual_page() {
    let page = run(["man"]).exits(0).stdout.clone();
    assert!(page.contains(".TH coremap 1"), "{page:.200}");
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    run(["man", "--dir", pages.to_str().unwrap()]).exits(0);
    for name in ["coremap.1", "coremap-summary.1", "coremap-gcroot.1", "coremap-man.1"] {
        let text = std::fs::read_to_string(pages.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(text.contains(".SH"), "{name}");
    }
    let told = run(["man", "--dir", Path::new("/proc/no/such").to_str().unwrap()]);
    told.exits(2);
    assert!(told.stderr.contains("/proc/no/such"), "{}", told.stderr);
}
