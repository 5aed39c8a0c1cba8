// SPDX-License-Identifier: Apache-2.0
//! From JSON to paths. Paths that were read before a damage are kept.

use super::input::Input;
use crate::budget::Budget;
use crate::damage::{Damage, Error};
use crate::paths::MOST_CALLERS;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Read;

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) version: Option<u64>,
    /// The file tells the lifetime of blocks (`bklt`).
    pub(super) tells_frees: Option<bool>,
    pub(super) command: Option<String>,
    pub(super) time_unit: Option<String>,
    pub(super) peak_at: Option<u64>,
    pub(super) ended_at: Option<u64>,
    pub(super) points: Vec<Point>,
    pub(super) frames: Vec<String>,
    budget: Budget,
}

/// One path.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) peak_bytes: u64,
    pub(super) end_bytes: u64,
    /// Places in the table of functions, the innermost first.
    pub(super) frames: Vec<u32>,
}

pub(super) fn read(input: impl Read) -> (Content, Option<Error>) {
    let mut content = Content::default();
    let mut input = Input::new(input);
    let mut json = serde_json::Deserializer::from_reader(&mut input);
    let read = (&mut content).deserialize(&mut json).and_then(|()| json.end());
    let error = read.err().map(|error| {
        let damage = |what: String| Damage { at_byte: input.at_byte, line: input.line, what, is_end: false };
        match error.classify() {
            serde_json::error::Category::Eof => {
                Damage { is_end: true, ..damage("the file ends where more must follow".to_owned()) }.into()
            }
            serde_json::error::Category::Io => crate::damage::of_input(error.into(), damage),
            _ => {
                let words = error.to_string();
                damage(words.split(" at line ").next().unwrap_or_default().to_owned()).into()
            }
        }
    });
    (content, error)
}

/// Bytes that are no UTF-8 are replaced.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

impl<'de> DeserializeSeed<'de> for &mut Content {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Content {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            match key.as_str() {
                "dhatFileVersion" => {
                    let version: u64 = map.next_value()?;
                    if version != 2 {
                        return Err(A::Error::custom(format!("version {version} of DHAT's format; 2 can be read")));
                    }
                    self.version = Some(version);
                }
                "bklt" => self.tells_frees = Some(map.next_value()?),
                "cmd" => self.command = Some(map.next_value::<Text>()?.0),
                "tu" => self.time_unit = Some(map.next_value::<Text>()?.0),
                "tg" => self.peak_at = Some(map.next_value()?),
                "te" => self.ended_at = Some(map.next_value()?),
                "pps" => map.next_value_seed(Elements { content: self, add: add_point })?,
                "ftbl" => map.next_value_seed(Elements { content: self, add: add_frame })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The elements of an array, each handed out when it has been read.
struct Elements<'a, T> {
    content: &'a mut Content,
    add: fn(&mut Content, T) -> Result<(), String>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Elements<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element::<T>()? {
            (self.add)(self.content, element).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// One path, with the names that DHAT's file has.
#[derive(Deserialize)]
struct RawPoint {
    #[serde(default)]
    gb: u64,
    #[serde(default)]
    eb: u64,
    fs: Callers,
}

/// The callers, at most as many as any profiler records; further ones are left out.
struct Callers(Vec<u32>);

impl<'de> Deserialize<'de> for Callers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Most;
        impl<'de> Visitor<'de> for Most {
            type Value = Callers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of places in ftbl")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Callers, A::Error> {
                let mut callers = Vec::new();
                while let Some(place) = seq.next_element()? {
                    if callers.len() < MOST_CALLERS {
                        callers.push(place);
                    }
                }
                Ok(Callers(callers))
            }
        }
        deserializer.deserialize_seq(Most)
    }
}

fn add_point(content: &mut Content, raw: RawPoint) -> Result<(), String> {
    content.budget.take(size_of::<Point>() + raw.fs.0.capacity() * size_of::<u32>())?;
    content.points.push(Point { peak_bytes: raw.gb, end_bytes: raw.eb, frames: raw.fs.0 });
    Ok(())
}

fn add_frame(content: &mut Content, Text(text): Text) -> Result<(), String> {
    // the string, and the frame that is made from it
    content.budget.take(size_of::<String>() + 128 + 2 * text.len())?;
    content.frames.push(text);
    Ok(())
}
