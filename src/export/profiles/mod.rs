//! Stacks with weights, for viewers of profiles: a core is one moment, so a stack counts threads or bytes, and no time.

pub mod firefox;
pub mod folded;
pub mod pprof;
pub mod speedscope;

use std::collections::HashMap;

/// What a stack is made of: a function, or what stands for one where the weight is memory: a type, a kind of root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its name.
    pub name: String,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// File name of the module that it is in.
    pub module: Option<String>,
}

impl Frame {
    /// One of which there is only a name.
    pub fn named(name: impl Into<String>) -> Frame {
        Frame { name: name.into(), ..Frame::default() }
    }
}

/// What a weight is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// A word for it: `threads`, `retained`.
    pub name: &'static str,
    /// Whether it is bytes, or a number of things.
    pub bytes: bool,
}

/// A stack, with a weight for each measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Numbers of frames, the outermost first.
    pub frames: Vec<u32>,
    /// Weights, in the order of the measures.
    pub weights: Vec<u64>,
}

/// Stacks of one kind, each once.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What it is of.
    pub title: String,
    /// What weights are of.
    pub measures: Vec<Measure>,
    /// Frames, each once.
    pub frames: Vec<Frame>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    numbers: HashMap<Frame, u32>,
    known: HashMap<Vec<u32>, usize>,
}

impl Profile {
    /// One without stacks.
    pub fn new(title: impl Into<String>, measures: &[Measure]) -> Profile {
        Profile { title: title.into(), measures: measures.to_vec(), ..Profile::default() }
    }

    /// Add a stack, or its weights to an equal one; the outermost frame is first. Gives its place among the stacks.
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

    /// The frames of the stack at a place, the outermost first.
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

    /// The sum of a measure over all stacks.
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
