//! Gives the program the commit that it is built from, for `--version`.
//!
//! In order: `COREMAP_COMMIT` (a packager's word), `.cargo_vcs_info.json` (in
//! every published crate), git. Without any of them the version stands alone.
//! Nothing of the time or the machine goes in, so that a build can be repeated.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of the commit that are told.
const DIGITS: usize = 12;

/// What the program is made of: a change there that git has not seen is told.
const SOURCES: [&str; 5] = ["src", "crates", "build.rs", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-env-changed=COREMAP_COMMIT");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = from_packager().or_else(|| from_crate(&root)).or_else(|| from_git(&root));
    let told = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=COREMAP_VERSION={told}");
}

fn from_packager() -> Option<String> {
    let text = std::env::var("COREMAP_COMMIT").ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}

/// Of a published crate: `{"git": {"sha1": "…"}, …}`, written by cargo.
fn from_crate(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join(".cargo_vcs_info.json")).ok()?;
    let after = text.split("\"sha1\"").nth(1)?;
    let sha = after.split('"').nth(1)?;
    let whole = sha.len() >= DIGITS && sha.bytes().all(|b| b.is_ascii_hexdigit());
    let modified = if text.contains("\"dirty\": true") { ", modified" } else { "" };
    whole.then(|| format!("{}{modified}", sha.get(..DIGITS).unwrap_or(sha)))
}

fn from_git(root: &Path) -> Option<String> {
    let git = |args: &[&str]| -> Option<String> {
        let out = Command::new("git").arg("--no-optional-locks").current_dir(root).args(args).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    // Sources that lie unpacked in some other project's checkout are not its commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", &format!("--short={DIGITS}"), "HEAD"])?;
    // HEAD itself, the branch it stands for, where branches are packed, and the
    // list of all that HEAD was: a packed branch has no file until it moves.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]).unwrap_or_default();
    for name in ["HEAD", &branch, "packed-refs", "logs/HEAD"] {
        if let Some(path) = (!name.is_empty()).then(|| git(&["rev-parse", "--git-path", name])).flatten() {
            let path = root.join(path);
            // A file named here that isn't there would make cargo build each time.
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let modified = git(&status).is_none_or(|changes| !changes.is_empty());
    Some(if modified { format!("{commit}, modified") } else { commit })
}
