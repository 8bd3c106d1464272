//! Names of classes and methods, as jcmd, jstack and jhsdb write them.

/// Converts a Symbol to a class name in Java's syntax: `java/lang/String` is `java.lang.String`, `[[I` is `int[][]`,
/// and `A+0x00007f` of a hidden class is `A/0x00007f`.
pub fn external_name(symbol: &str) -> String {
    match symbol.strip_prefix('[') {
        Some(_) => external_signature(symbol),
        None => dotted(symbol),
    }
}

/// Replaces slashes by dots. A hidden class has a plus before its address, where the VM's own tools write a slash
/// (Klass::external_name, InstanceKlass::signature_name).
fn dotted(symbol: &str) -> String {
    let (name, hidden) = match symbol.rsplit_once('+') {
        Some((name, address)) if address.starts_with("0x") => (name, Some(address)),
        _ => (symbol, None),
    };
    let name = name.replace('/', ".");
    match hidden {
        Some(address) => format!("{name}/{address}"),
        None => name,
    }
}

/// Converts a field's descriptor to a type name: `I` is `int`, `[Ljava/lang/Object;` is `java.lang.Object[]`.
pub fn external_signature(descriptor: &str) -> String {
    let (mut out, rest) = one_type(descriptor);
    out.push_str(rest);
    out
}

/// Returns the argument types in a method's descriptor.
pub(super) fn arguments(descriptor: &str) -> String {
    let inner = descriptor.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |(inner, _)| inner);
    let mut out = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let (name, after) = one_type(rest);
        out.push(name);
        rest = after;
    }
    out.join(", ")
}

/// Returns the first type of a descriptor, and the rest of the descriptor.
fn one_type(descriptor: &str) -> (String, &str) {
    let element = descriptor.trim_start_matches('[');
    let dimensions = descriptor.len() - element.len();
    let mut letters = element.chars();
    let (name, rest) = match letters.next() {
        Some('L') => match letters.as_str().split_once(';') {
            Some((name, rest)) => (dotted(name), rest),
            None => (dotted(letters.as_str()), ""),
        },
        Some(letter) => (primitive(letter).map_or_else(|| letter.to_string(), str::to_owned), letters.as_str()),
        None => (String::new(), ""),
    };
    (name + &"[]".repeat(dimensions), rest)
}

/// Returns the primitive type of a descriptor letter (JVMS 4.3.2).
fn primitive(letter: char) -> Option<&'static str> {
    Some(match letter {
        'B' => "byte",
        'C' => "char",
        'D' => "double",
        'F' => "float",
        'I' => "int",
        'J' => "long",
        'S' => "short",
        'Z' => "boolean",
        'V' => "void",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes() {
        for (symbol, name) in [
            ("java/lang/String", "java.lang.String"),
            ("H5Lab$PlantA", "H5Lab$PlantA"),
            ("[I", "int[]"),
            ("[[Z", "boolean[][]"),
            ("[Ljava/lang/Object;", "java.lang.Object[]"),
            ("[[Ljava/util/Map$Entry;", "java.util.Map$Entry[][]"),
            ("a/B$$Lambda+0x00007f", "a.B$$Lambda/0x00007f"),
            ("a/B+C", "a.B+C"),
            ("[", "[]"),
            ("[Q", "Q[]"),
        ] {
            assert_eq!(external_name(symbol), name);
        }
    }

    #[test]
    fn arguments_of_methods() {
        for (descriptor, types) in [
            ("()V", ""),
            ("(J)V", "long"),
            ("(ILjava/lang/String;[B)Z", "int, java.lang.String, byte[]"),
            // Cut off: the closing bracket is missing.
            ("(Ljava/lang", ""),
            ("(", ""),
            ("", ""),
        ] {
            assert_eq!(arguments(descriptor), types, "{descriptor}");
        }
    }
}
