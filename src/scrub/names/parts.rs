//! Divides tokens that consist of several: names that compilers generate, and C++ mangled names. The compiler's part
//! stays, so that readers still recognise such names.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamePart<'t> {
    /// Text that stays.
    Stays(&'t str),
    /// A name to map.
    Name(&'t str),
}

/// Prefixes of the names of accessors and operators (ECMA-335 I.10.3, II.22.28).
const ACCESSORS: [&str; 5] = ["get_", "set_", "add_", "remove_", "op_"];

/// Divides a token into pieces, in order. Most have one.
pub(super) fn pieces(token: &str) -> Vec<NamePart<'_>> {
    if let Some(rest) = token.strip_prefix("_Z") {
        return mangled(rest).unwrap_or_else(|| vec![NamePart::Name(token)]);
    }
    // An address.
    if token.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit())) {
        return vec![NamePart::Stays(token)];
    }
    // A System V shared memory segment, as the kernel names it.
    if token.strip_prefix("SYSV").is_some_and(|key| key.len() == 8 && key.bytes().all(|b| b.is_ascii_hexdigit())) {
        return vec![NamePart::Stays(token)];
    }
    // Accessors and operators of .NET are named after their property, event or type.
    if let Some(prefix) = ACCESSORS.iter().find(|prefix| token.starts_with(**prefix))
        && let Some((begin, rest)) = token.split_at_checked(prefix.len()).filter(|(_, rest)| !rest.is_empty())
    {
        return vec![NamePart::Stays(begin), NamePart::Name(rest)];
    }
    let made_up = token.split_at_checked(3).filter(|(begin, _)| is_made_up(begin));
    let Some((begin, rest)) = made_up else { return vec![NamePart::Name(token)] };
    if is_roslyns(rest) { vec![NamePart::Stays(token)] } else { vec![NamePart::Stays(begin), NamePart::Name(rest)] }
}

/// Whether it is the beginning of a name that Roslyn generates: `d__1`, `5__2` (GeneratedNameKind).
fn is_made_up(begin: &str) -> bool {
    matches!(begin.as_bytes(), [b'0'..=b'9' | b'a'..=b'z', b'_', b'_'])
}

/// Whether the rest of such a name is generated too.
fn is_roslyns(rest: &str) -> bool {
    // Includes suffixes of Mono's mcs.
    let words = [
        "DisplayClass",
        "BackingField",
        "AnonymousType",
        "AnonymousDelegate",
        "wrap",
        "state",
        "builder",
        "this",
        "current",
        "AnonStorey",
        "async",
        "Iterator",
    ];
    let rest = words.iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// Divides a C++ mangled name after its `_Z`. Identifiers have their length before them (C++ ABI 5.1.2
/// `<source-name>`).
fn mangled(token: &str) -> Option<Vec<NamePart<'_>>> {
    let mut out = vec![NamePart::Stays("_Z")];
    let mut rest = token;
    let mut plain = 0;
    while let Some(next) = rest.as_bytes().get(plain) {
        // S1_, T0_: something named before. Li5E: a number.
        if matches!(next, b'S' | b'T' | b'L' | b'C' | b'D') {
            plain += short(rest.get(plain..)?);
            continue;
        }
        if !matches!(next, b'1'..=b'9') {
            plain += 1;
            continue;
        }
        let digits = rest.get(plain..)?.bytes().take_while(u8::is_ascii_digit).count();
        let len: usize = rest.get(plain..plain + digits)?.parse().ok()?;
        let from = plain + digits;
        let name = rest.get(from..from.checked_add(len)?)?;
        out.push(NamePart::Stays(rest.get(..from)?));
        out.push(NamePart::Name(name));
        rest = rest.get(from + len..)?;
        plain = 0;
    }
    if plain > 0 {
        out.push(NamePart::Stays(rest));
    }
    Some(out)
}

/// Length in bytes of a substitution, a parameter or a literal at the start of `rest`. 1 if there is none.
fn short(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let run = |from: usize, is: fn(&u8) -> bool| bytes.iter().skip(from).take_while(|b| is(b)).count();
    match bytes {
        [b'S' | b'T', ..] => {
            let seq = run(1, |b| b.is_ascii_digit() || b.is_ascii_uppercase());
            if bytes.get(1 + seq) == Some(&b'_') { 2 + seq } else { 1 }
        }
        // Constructors and destructors.
        [b'C' | b'D', b'0'..=b'5', ..] => 2,
        [b'L', b'a'..=b'z', ..] => {
            let digits = run(2, |b| b.is_ascii_digit() || *b == b'n');
            if digits > 0 && bytes.get(2 + digits) == Some(&b'E') { 3 + digits } else { 1 }
        }
        _ => 1,
    }
}

/// Returns the class in a piece of a descriptor (JVMS 4.3): `com` for `IJLcom`. `None` if it is no descriptor,
/// `Some("")` if it has only primitive types.
pub(super) fn class_of(token: &str) -> Option<&str> {
    let rest = token.trim_start_matches(['B', 'C', 'D', 'F', 'I', 'J', 'S', 'Z']);
    match rest {
        "" | "V" => Some(""),
        _ => rest.strip_prefix('L').filter(|class| !class.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::NamePart::{Name, Stays};
    use super::*;

    #[test]
    fn what_compilers_made_up_stays() {
        assert_eq!(pieces("Invoice"), [Name("Invoice")]);
        assert_eq!(pieces("d__12"), [Stays("d__12")]);
        assert_eq!(pieces("c__DisplayClass3_0"), [Stays("c__DisplayClass3_0")]);
        assert_eq!(pieces("g__Total"), [Stays("g__"), Name("Total")]);
        assert_eq!(pieces("0x00007f12ab"), [Stays("0x00007f12ab")]);
        assert_eq!(pieces("é__a"), [Name("é__a")]);
    }

    #[test]
    fn mangled_names_keep_their_form() {
        let wanted = [Stays("_Z"), Stays("N4"), Name("Acme"), Stays("7"), Name("Invoice"), Stays("C1ERKS0_")];
        assert_eq!(pieces("_ZN4Acme7InvoiceC1ERKS0_"), wanted);
        assert_eq!(pieces("_ZLi5E"), [Stays("_Z"), Stays("Li5E")]);
        // A length past the end.
        assert_eq!(pieces("_ZN9abc"), [Name("_ZN9abc")]);
    }

    #[test]
    fn descriptors_have_a_class_behind_letters() {
        assert_eq!(class_of("IJLcom"), Some("com"));
        assert_eq!(class_of("LLaunch"), Some("Launch"));
        assert_eq!(class_of("IIJ"), Some(""));
        assert_eq!(class_of("V"), Some(""));
        assert_eq!(class_of("Acme"), None);
    }
}
