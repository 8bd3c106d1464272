//! Stacks with weights, for profile viewers. A core is one moment, so stacks count threads or bytes, not time.

pub mod firefox;
pub mod folded;
pub mod pprof;
pub mod speedscope;

use std::collections::HashMap;

/// A frame of a stack: a function, or in a memory profile a type or a kind of root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Name of the function, type or kind.
    pub name: String,
    /// Source file.
    pub file: Option<String>,
    /// Line in the file.
    pub line: Option<u32>,
    /// File name of its module.
    pub module: Option<String>,
}

impl Frame {
    /// Creates a frame that has only a name.
    pub fn named(name: impl Into<String>) -> Frame {
        Frame { name: name.into(), ..Frame::default() }
    }
}

/// The unit of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Name of the measure: `threads`, `retained`.
    pub name: &'static str,
    /// Whether it counts bytes. Otherwise it is a number of items.
    pub bytes: bool,
}

/// A stack, with a weight for each measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Indices into the frames, the outermost first.
    pub frames: Vec<u32>,
    /// Weights, one for each measure.
    pub weights: Vec<u64>,
}

/// Stacks of one kind, each once.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Title of the profile.
    pub title: String,
    /// Measures of the weights.
    pub measures: Vec<Measure>,
    /// Frames, each once.
    pub frames: Vec<Frame>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    numbers: HashMap<Frame, u32>,
    known: HashMap<Vec<u32>, usize>,
}

impl Profile {
    /// Creates a profile without stacks.
    pub fn new(title: impl Into<String>, measures: &[Measure]) -> Profile {
        Profile { title: title.into(), measures: measures.to_vec(), ..Profile::default() }
    }

    /// Adds a stack, or adds its weights to an equal one. The outermost frame is first. Returns the stack's index.
    pub fn add(&mut self, frames: impl IntoIterator<Item = Frame>, weights: &[u64]) -> usize {
        let frames: Vec<u32> = frames.into_iter().map(|frame| self.number(frame)).collect();
        let (next, stacks) = (self.stacks.len(), &mut self.stacks);
        let at = *self.known.entry(frames).or_insert_with_key(|frames| {
            stacks.push(Stack { frames: frames.clone(), weights: vec![0; weights.len()] });
            next
        });
        if let Some(stack) = self.stacks.get_mut(at) {
            stack.weights.iter_mut().zip(weights).for_each(|(sum, weight)| *sum = sum.saturating_add(*weight));
        }
        at
    }

    /// Iterates the frames of the stack with this index, the outermost first.
    pub fn frames_of(&self, stack: usize) -> impl Iterator<Item = &Frame> {
        let frames = self.stacks.get(stack).map_or(&[][..], |stack| &stack.frames);
        frames.iter().filter_map(|&frame| self.frames.get(frame as usize))
    }

    fn number(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }

    /// Returns the sum of a measure over all stacks.
    pub fn total(&self, measure: usize) -> u64 {
        self.stacks.iter().filter_map(|stack| stack.weights.get(measure)).fold(0, |sum, w| sum.saturating_add(*w))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one() {
        let mut profile = Profile::new("t", &[Measure { name: "threads", bytes: false }]);
        for (names, weight) in [(["main", "a"], 1), (["main", "b"], 2), (["main", "a"], 3)] {
            profile.add(names.map(Frame::named), &[weight]);
        }
        assert_eq!((profile.frames.len(), profile.stacks.len(), profile.total(0)), (3, 2, 6));
        assert_eq!(profile.stacks[0], Stack { frames: vec![0, 1], weights: vec![4] });
    }
}
