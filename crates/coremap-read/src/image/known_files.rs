//! Files that anyone can have: those of the system and of runtimes. Their names, and the names in them, are no secret.

use crate::image::modules::file_name;

/// Folders of the system (file-hierarchy(7)). /usr/local and /usr/src contain whatever somebody put there.
const SYSTEM: [&str; 5] = ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/"];
const NOT_SYSTEM: [&str; 2] = ["/usr/local/", "/usr/src/"];

/// Prefixes of the names of runtime files, wherever they are installed.
const RUNTIMES: [&str; 19] = [
    "libcoreclr",
    "libclr",
    "libhostfxr",
    "libhostpolicy",
    "libmscordac",
    "libmscordbi",
    "libSystem.",
    "System.",
    "Microsoft.",
    "mscorlib.",
    "netstandard.",
    "libjvm.so",
    "libjli.so",
    "libpython3",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libc.",
    "linux-vdso.so",
];

/// Complete names of such files.
const PROGRAMS: [&str; 5] = ["dotnet", "java", "[vdso]", "createdump", "python3"];

/// Whether `path` is a file that anyone can have. `jdks` are folders of JDKs, with a trailing slash.
pub fn is_public_file(path: &str, jdks: &[String]) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = file_name(path);
    is_system_path(path)
        || RUNTIMES.iter().any(|begin| name.starts_with(begin))
        || PROGRAMS.contains(&name)
        || name.strip_prefix("python3.").is_some_and(|minor| minor.bytes().all(|b| b.is_ascii_digit()))
        || jdks.iter().any(|jdk| path.starts_with(jdk.as_str()))
        || is_python_stdlib(path)
}

/// Whether the path is within the system's folders.
pub fn is_system_path(path: &str) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder)) && !NOT_SYSTEM.iter().any(|folder| path.starts_with(folder))
        || path.starts_with("<frozen ")
}

/// Whether it is a file of Python's standard library.
fn is_python_stdlib(path: &str) -> bool {
    let library = ["/lib/python3.", "/lib64/python3."].iter().find_map(|folder| path.split_once(folder));
    library.is_some_and(|(_, rest)| !rest.contains("site-packages") && !rest.contains("dist-packages"))
}

/// Returns the folder of the JDK whose VM is `path`: two or three folders above it, past `lib`.
pub fn jdk_of(path: &str) -> Option<String> {
    let folder = path.strip_suffix("/libjvm.so")?;
    let (above, _) = folder.rsplit_once("/lib/")?;
    Some(format!("{above}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_and_of_runtimes_are_everybodys() {
        let jdks: Vec<String> = jdk_of("/home/x/jdk-17/lib/server/libjvm.so").into_iter().collect();
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/home/x/.dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so",
            "/app/System.Private.CoreLib.dll",
            "/home/x/jdk-17/lib/libnio.so",
            "/usr/local/bin/python3.11",
            "/usr/local/lib/python3.11/threading.py",
            "[vdso]",
        ] {
            assert!(is_public_file(path, &jdks), "{path}");
        }
        for path in [
            "/home/x/app",
            "/usr/local/bin/app",
            "/usr/src/app/main.py",
            "/opt/app/libacme.so",
            "/usr/local/lib/python3.11/site-packages/acme/main.py",
            "/home/x/python3.cfg",
            "",
        ] {
            assert!(!is_public_file(path, &jdks), "{path}");
        }
    }
}
