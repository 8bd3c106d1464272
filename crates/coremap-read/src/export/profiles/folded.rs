//! Collapsed stacks, one per line: `outermost;…;innermost weight`, as all flame graph tools read them.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::bytes::printable;
use crate::export::profiles::Profile;

/// Writes the stacks of `profile`, weighed by its first measure. Returns their number.
///
/// # Errors
/// Errors of writing.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<u64> {
    // The separator must not occur in a name.
    let names: Vec<String> = profile.frames.iter().map(|frame| printable(&frame.name).replace(';', ":")).collect();
    // Frames of one function on several lines become equal here.
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut lines: Vec<u64> = Vec::new();
    for stack in &profile.stacks {
        let Some(&weight) = stack.weights.first().filter(|weight| **weight > 0) else { continue };
        let frames = stack.frames.iter().filter_map(|&frame| names.get(frame as usize));
        let at = *known.entry(frames.map(String::as_str).collect::<Vec<_>>().join(";")).or_insert(lines.len());
        match lines.get_mut(at) {
            Some(sum) => *sum = sum.saturating_add(weight),
            None => lines.push(weight),
        }
    }
    let mut known: Vec<(String, usize)> = known.into_iter().collect();
    known.sort_unstable_by_key(|(_, at)| *at);
    for ((stack, _), weight) in known.iter().zip(&lines) {
        writeln!(out, "{stack} {weight}")?;
    }
    Ok(lines.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::profiles::{Frame, Measure};

    #[test]
    fn a_line_has_frames_and_a_weight() -> io::Result<()> {
        let measures = [Measure { name: "threads", bytes: false }, Measure { name: "reserved", bytes: true }];
        let mut profile = Profile::new("t", &measures);
        profile.add(["main", "List<A;B>", "wait\n"].map(Frame::named), &[3, 4096]);
        profile.add(["main"].map(Frame::named), &[0, 4096]);
        let mut out = Vec::new();
        assert_eq!(write(&profile, &mut out)?, 1);
        assert_eq!(out, b"main;List<A:B>;wait\\x0a 3\n");
        Ok(())
    }
}
