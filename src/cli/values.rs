//! Values of arguments that the library names.

use coremap::dotnet::Generation;
use coremap::map::Kind;

/// A kind of region by its name.
pub(super) fn kind(name: &str) -> Result<Kind, String> {
    Kind::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
        format!("no such kind; there are {}", all.join(", "))
    })
}

/// A generation by its name, or by its number alone.
pub(super) fn generation(name: &str) -> Result<Generation, String> {
    let found = match name {
        "0" => Some(Generation::Gen0),
        "1" => Some(Generation::Gen1),
        "2" => Some(Generation::Gen2),
        _ => Generation::from_name(name),
    };
    found.ok_or_else(|| {
        let all: Vec<&str> = Generation::ALL.iter().map(|g| g.name()).collect();
        format!("no such generation; there are {}", all.join(", "))
    })
}
