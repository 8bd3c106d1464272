//! Machines.

/// Machine the process ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// x86_64
    X86_64,
    /// aarch64
    Aarch64,
}

impl Arch {
    /// Name as in the JSON contract.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }
}
