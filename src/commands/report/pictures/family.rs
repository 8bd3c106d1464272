//! Colours and titles of the families of kinds.

use crate::map::Kind;
pub(in crate::commands::report) use crate::map::kind_facts::Family;

/// How a family looks in a picture.
pub(in crate::commands::report) trait Look {
    /// All families, in the order of a legend.
    const ALL: [Family; 8];

    /// The family of a kind.
    fn of(kind: Kind) -> Family {
        kind.facts().family
    }

    /// CSS class of its colour.
    fn class(self) -> &'static str;

    /// Its name in a legend.
    fn title(self) -> &'static str;
}

impl Look for Family {
    const ALL: [Family; 8] = [
        Family::Heap,
        Family::Native,
        Family::Stack,
        Family::File,
        Family::Runtime,
        Family::Shared,
        Family::Anon,
        Family::Reserved,
    ];

    fn class(self) -> &'static str {
        match self {
            Family::Heap => "f-heap",
            Family::Native => "f-native",
            Family::Stack => "f-stack",
            Family::File => "f-file",
            Family::Runtime => "f-runtime",
            Family::Shared => "f-shared",
            Family::Anon => "f-anon",
            Family::Reserved => "f-reserved",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Family::Heap => "managed heap",
            Family::Native => "native heap",
            Family::Stack => "stacks",
            Family::File => "program files and other files",
            Family::Runtime => "runtime structures",
            Family::Shared => "shared memory",
            Family::Anon => "anonymous, no known owner",
            Family::Reserved => "reserved",
        }
    }
}
