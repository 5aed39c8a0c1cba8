// SPDX-License-Identifier: Apache-2.0
//! The file of Valgrind's DHAT (Valgrind 3.19, dhat/dh_main.c; format 2): JSON, with the bytes of each path of callers at two moments, when the heap was
//! largest (`gb`) and at the end (`eb`), and after it a table of the functions (`ftbl`).
//!
//! ```text
//! {"dhatFileVersion":2,"mode":"heap","bklt":true,"tu":"instrs","cmd":"./program","te":171246,"tg":162988
//! ,"pps":[{"gb":65536,"eb":65536,"fs":[1,2,3]}]
//! ,"ftbl":["[root]","0x48417B4: malloc (in /usr/libexec/valgrind/vgpreload_dhat-amd64-linux.so)", ...]}
//! ```

mod input;
mod json;

use crate::damage::{Damage, Error};
use crate::format::Format;
use crate::frame::{Frame, Label};
use crate::outline::Outline;
use crate::paths::Paths;
use crate::snapshot::{Kind, Snapshot, TimeUnit};
use crate::tree::Tree;
use json::Content;
use std::cmp::Reverse;
use std::io::Read;
use std::sync::Arc;

/// # Errors
/// [`Error::Damage`]: the input is not a file of DHAT, or does not tell when blocks were freed.
pub(crate) fn outline(input: impl Read) -> Result<Outline, Error> {
    let (content, damage) = read(input)?;
    let mut outline = Outline::of(Format::Dhat);
    outline.command = content.command.clone().map(String::into_bytes);
    outline.time_unit = content.time_unit.as_deref().and_then(|unit| match unit {
        "instrs" => Some(TimeUnit::Instructions),
        "us" | "µs" => Some(TimeUnit::Milliseconds),
        _ => None,
    });
    let sum = |of: fn(&json::Point) -> u64| content.points.iter().fold(0_u64, |sum, it| sum.saturating_add(of(it)));
    let time = |time: Option<u64>| match content.time_unit.as_deref() {
        Some("us" | "µs") => time.unwrap_or(0) / 1000,
        _ => time.unwrap_or(0),
    };
    outline.snapshots = vec![
        Snapshot::with_tree(0, 0, 0, Kind::Detailed),
        Snapshot::with_tree(1, time(content.peak_at), sum(|it| it.peak_bytes), Kind::Peak),
        Snapshot::with_tree(2, time(content.ended_at), sum(|it| it.end_bytes), Kind::Detailed),
    ];
    outline.damage = damage;
    Ok(outline)
}

/// The trees of those of the three snapshots whose places are in `places`.
///
/// # Errors
/// As [`outline`].
pub(crate) fn trees(
    input: impl Read,
    outline: &Outline,
    places: &[usize],
    each: &mut dyn FnMut(usize, Tree),
) -> Result<(), Error> {
    let (content, _) = read(input)?;
    let frames: Vec<Arc<Frame>> = content.frames.iter().map(|text| Arc::new(frame(text))).collect();
    // the last frame is used for functions that are missing after a damage
    let missing = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    let frames = [frames, vec![Arc::new(Frame { function: "???".to_owned(), place: None })]].concat();
    let held: [fn(&json::Point) -> u64; 3] = [|_| 0, |it| it.peak_bytes, |it| it.end_bytes];
    for (place, bytes) in held.into_iter().enumerate().filter(|(place, _)| places.contains(place)) {
        let Some(snapshot) = outline.snapshots.get(place) else { continue };
        let mut points: Vec<&json::Point> = content.points.iter().filter(|it| bytes(it) > 0).collect();
        points.sort_by_key(|it| Reverse(bytes(it)));
        let mut paths = Paths::new(&frames);
        for point in points {
            paths.add(point.frames.iter().map(|it| (*it).min(missing)), bytes(point).into());
        }
        each(place, paths.tree(*snapshot, 0, None));
    }
    Ok(())
}

fn frame(text: &str) -> Frame {
    match Label::of_massif(text.as_bytes()) {
        Label::Frame(frame) => Arc::unwrap_or_clone(frame),
        Label::Root(function) => Frame { function, place: None },
        Label::Hidden { .. } => Frame { function: text.to_owned(), place: None },
    }
}

fn read(input: impl Read) -> Result<(Content, Option<Damage>), Error> {
    let (content, error) = json::read(input);
    let damage = match error {
        None => None,
        Some(Error::Damage(damage)) => Some(damage),
        Some(error) => return Err(error),
    };
    let none = |what: &str| Damage { at_byte: 0, line: 1, what: what.to_owned(), is_end: false };
    if content.version.is_none() {
        return Err(damage.unwrap_or_else(|| none("no `dhatFileVersion`")).into());
    }
    if content.tells_frees == Some(false) {
        return Err(none(
            "a file of DHAT that does not tell when blocks were freed (`bklt`): profile with --mode=heap",
        )
        .into());
    }
    Ok((content, damage))
}
