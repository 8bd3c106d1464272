//! JSON of speedscope (<https://www.speedscope.app/file-format-schema.json>): shared frames, and a profile for each
//! measure.

use std::io::{self, Write};

use serde::Serialize;

use crate::export::profiles::{Profile, Stack};

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: u32,
    shared: Shared<'a>,
    profiles: Vec<Sampled<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<SharedFrame<'a>>,
}

#[derive(Serialize)]
struct SharedFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct Sampled<'a> {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: u64,
    #[serde(rename = "endValue")]
    end: u64,
    samples: Vec<&'a [u32]>,
    weights: Vec<u64>,
}

/// Writes `profile`. `tool` is the name of the writing tool. Returns the number of stacks.
///
/// # Errors
/// Errors of writing.
pub fn write(profile: &Profile, tool: &str, out: &mut dyn Write) -> io::Result<u64> {
    // The first view shows stacks in file order. Sorted, so that stacks with equal outer frames are adjacent.
    let mut stacks: Vec<&Stack> = profile.stacks.iter().collect();
    stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    let sampled = profile.measures.iter().enumerate().map(|(number, measure)| {
        let of = stacks.iter().filter_map(|stack| Some((&stack.frames[..], *stack.weights.get(number)?)));
        let (samples, weights) = of.filter(|(_, weight)| *weight > 0).unzip();
        Sampled {
            r#type: "sampled",
            name: format!("{}: {}", profile.title, measure.name),
            unit: if measure.bytes { "bytes" } else { "none" },
            start: 0,
            end: profile.total(number),
            samples,
            weights,
        }
    });
    let frames = profile.frames.iter();
    let frames = frames.map(|f| SharedFrame { name: &f.name, file: f.file.as_deref(), line: f.line });
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: &profile.title,
        exporter: tool,
        active: 0,
        shared: Shared { frames: frames.collect() },
        profiles: sampled.collect(),
    };
    serde_json::to_writer(&mut *out, &file)?;
    out.write_all(b"\n")?;
    Ok(profile.stacks.len() as u64)
}
