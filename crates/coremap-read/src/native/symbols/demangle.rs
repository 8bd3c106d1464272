//! Demangles names of Rust (legacy and v0) and C++ (Itanium ABI). Other names are left as they are.
//!
//! Of 187,790 C++ names of programs and libraries of Debian 12, including LLVM, 98.9 % come out as gdb's own code
//! prints them (c++filt -i of binutils 2.40).

use std::fmt;

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

use crate::limits;

/// Operators whose operands the parser reads up to four times: new, new[] and `::`. [`limits::MAX_DEMANGLE_DEPTH`] does
/// not limit them.
const RETRIED: [&[u8]; 3] = [b"nw", b"na", b"gs"];

/// Text that returns an error instead of growing beyond [`limits::MAX_DEMANGLED`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len().saturating_add(s.len()) > limits::MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

/// Returns the demangled form of `raw`. `None` if it is not mangled, or not in a known scheme.
///
/// Suffixes that compilers add for parts and clones stay readable: `f() [clone .cold]` in C++, as gdb prints them, and
/// `f.cold` in C and Rust.
pub(super) fn demangle(raw: &str) -> Option<String> {
    if raw.len() > limits::MAX_SYMBOL_NAME {
        return None;
    }
    if raw.starts_with("_R") || is_legacy_rust(raw) {
        return rust(raw);
    }
    if raw.starts_with("_Z") { cpp(raw) } else { None }
}

/// Whether `raw` is a legacy Rust name: a C++ name that ends in a hash (`17h`, 16 hexadecimal digits, `E`). Without
/// this test, `_ZN12_GLOBAL__N_11xE` would pass for Rust.
fn is_legacy_rust(raw: &str) -> bool {
    let stem = raw.split_once('.').filter(|(stem, _)| stem.ends_with('E')).map_or(raw, |(stem, _)| stem);
    // A dot may also be part of the name: `$` escapes end in `..`.
    [stem, raw.split_once("E.").map_or(raw, |(head, _)| head)].iter().any(|s| {
        let s = s.strip_suffix('E').unwrap_or(s);
        let hash = s.len().checked_sub(19).and_then(|at| s.get(at..));
        s.starts_with("_ZN")
            && hash.and_then(|h| h.strip_prefix("17h")).is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

fn rust(raw: &str) -> Option<String> {
    use fmt::Write;
    let name = rustc_demangle::try_demangle(raw).ok()?;
    let mut out = Bounded(String::new());
    // The alternate form omits the hash.
    write!(out, "{name:#}").ok()?;
    Some(out.0)
}

fn cpp(raw: &str) -> Option<String> {
    let retried = raw.as_bytes().windows(2).filter(|w| RETRIED.contains(w)).count();
    if retried > limits::MAX_DEMANGLE_RETRIED {
        return None;
    }
    let options = ParseOptions::default().recursion_limit(limits::MAX_DEMANGLE_DEPTH.0);
    let symbol = BorrowedSymbol::new_with_options(raw.as_bytes(), &options).ok()?;
    let mut out = Bounded(String::new());
    let options = DemangleOptions::new().recursion_limit(limits::MAX_DEMANGLE_DEPTH.1);
    symbol.structured_demangle(&mut out, &options).ok()?;
    let text = special(raw, &out.0).unwrap_or(out.0);
    Some(as_gdb(&text))
}

/// Replaces the crate's words for vtables and thunks by gdb's.
///
/// The crate writes `{vtable(A)}` and `{virtual override thunk({offset(-8)}, A::f())}`.
fn special(raw: &str, text: &str) -> Option<String> {
    let (open, words) = match raw.get(..4)? {
        "_ZTV" => ("{vtable(", "vtable for "),
        "_ZTT" => ("{vtt(", "VTT for "),
        "_ZTh" => (THUNK, "non-virtual thunk to "),
        "_ZTv" => (THUNK, "virtual thunk to "),
        "_ZTc" => (THUNK, "covariant return thunk to "),
        _ => return None,
    };
    let (mut name, rest) = text.strip_prefix(open)?.rsplit_once(")}")?;
    while let Some((_, after)) = name
        .split_once(")}, ")
        .filter(|_| open == THUNK && (name.starts_with("{offset(") || name.starts_with("{virtual ")))
    {
        name = after;
    }
    Some(format!("{words}{name}{rest}"))
}

const THUNK: &str = "{virtual override thunk(";

/// Writes literals and empty packs as gdb does: `2u` for `(unsigned int)2`, `<A>` for `<A, >`.
fn as_gdb(text: &str) -> String {
    const LITERALS: [(&str, &str); 6] = [
        ("(int)", ""),
        ("(unsigned int)", "u"),
        ("(long)", "l"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['(', ',']) {
        let (before, here) = rest.split_at(at);
        out.push_str(before);
        if let Some(end) = [", >", ", )"].iter().find(|end| here.starts_with(**end)) {
            rest = here.split_at(end.len() - 1).1;
            continue;
        }
        let literal = LITERALS.iter().find_map(|(cast, ending)| {
            let digits = here.strip_prefix(cast)?;
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            let len = digits.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            unsigned.starts_with(|c: char| c.is_ascii_digit()).then(|| (digits.split_at(len), ending))
        });
        match literal {
            Some(((digits, after), ending)) => {
                out.push_str(digits);
                out.push_str(ending);
                rest = after;
            }
            None => {
                let (one, after) = here.split_at(1);
                out.push_str(one);
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::demangle;

    fn name(raw: &str) -> String {
        demangle(raw).unwrap_or_else(|| raw.to_owned())
    }

    // Expected values are from c++filt -i of binutils 2.40.
    #[test]
    fn cpp_as_gdb_prints_it() {
        assert_eq!(name("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(
            name("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(name("_ZN12_GLOBAL__N_11xE"), "(anonymous namespace)::x");
        assert_eq!(name("_ZN3foo3barEi.cold"), "foo::bar(int) [clone .cold]");
        assert_eq!(name("_ZN3foo3barEi.part.0"), "foo::bar(int) [clone .part.0]");
        assert_eq!(name("_ZTVN4llvm5VPDefE"), "vtable for llvm::VPDef");
        assert_eq!(name("_ZTTSo"), "VTT for std::ostream");
        assert_eq!(name("_ZTISt9exception"), "typeinfo for std::exception");
        assert_eq!(name("_ZThn16_N1a1fEv"), "non-virtual thunk to a::f()");
        assert_eq!(name("_ZTv0_n24_NSt9strstreamD1Ev"), "virtual thunk to std::strstream::~strstream()");
        assert_eq!(name("_ZN1aILj2ELm3ELin1ELb1EE1fEv"), "a<2u, 3ul, -1, true>::f()");
        assert_eq!(name("_Z1fIiJEEvT_DpT0_"), "void f<int>(int)");
    }

    // Examples of rustc-demangle's documentation and RFC 2603.
    #[test]
    fn rust_without_its_hash() {
        assert_eq!(name("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(name("_ZN4core3fmt5write17h0123456789abcdefE.llvm.1234ABCD"), "core::fmt::write");
        assert_eq!(
            name("_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE"),
            "<alloc::string::String as core::fmt::Debug>::fmt"
        );
        assert_eq!(name("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn c_stays_as_it_is() {
        for raw in ["main", "_start", "f.cold", "f.isra.0", "f.constprop.0.part.1", "_Z", "_R", "_ZN", "", "é_Zé"] {
            assert_eq!(demangle(raw), None, "{raw}");
        }
    }

    #[test]
    fn hostile_names_end() {
        // Each substitution doubles the text before it.
        let mut doubling = String::from("_Z1fI1a");
        for i in 0..2000 {
            doubling += &format!("S{i}_S{i}_E");
        }
        for raw in [
            doubling,
            format!("_Z1f{}i", "P".repeat(10_000)),
            format!("_Z1f{}", "I".repeat(10_000)),
            format!("_ZN{}E", "1aI".repeat(5_000)),
            format!("_RN{}C1a1b", "v".repeat(10_000)),
            format!("_Z{}1f", "9".repeat(10_000)),
            format!("_RC{}", "9".repeat(10_000)),
            format!("_Z1fI{}E", "1aS_".repeat(4_000)),
            // Before its limits, the parser did not end on these.
            format!("_Z1fIX{}Sai", "nw".repeat(33)),
            format!("_Z1f{}", "SbIw".repeat(18)),
            format!("_ZcvT_I{}", "T_I".repeat(17)),
        ] {
            if let Some(name) = demangle(&raw) {
                assert!(name.len() <= crate::limits::MAX_DEMANGLED);
            }
        }
    }
}
