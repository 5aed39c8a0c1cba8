// SPDX-License-Identifier: Apache-2.0
//! `--disk PATH=DISK`: a directory, and a disk with the keys of `disk delay`.

use diskmodel::{Counts, DiskRequest, LimitSpec, ProfileSpec, SpecError};
use evidence::DelayMode;
use std::path::{Path, PathBuf};

/// A directory, and the disk that it should seem to be on.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskArgument {
    pub path: PathBuf,
    pub asked: DiskRequest,
}

const KEYS: [&str; 9] = ["read", "write", "sync", "mode", "iops", "bandwidth", "depth", "stalls", "seed"];
const FORM: &str = "write PATH=PROFILE (`wringer disk profiles` lists them) or PATH=read=10ms,write=1ms,sync=2ms";

/// Parses `PATH=DISK`, for clap.
///
/// # Errors
/// The mistake, and the correct form.
pub fn parse(text: &str) -> Result<DiskArgument, String> {
    let (path, disk) = split(text, Path::is_dir).ok_or_else(|| FORM.to_owned())?;
    let asked = asked(disk).map_err(|error| error.to_string())?;
    Ok(DiskArgument { path: path.into(), asked })
}

/// Parses the disk alone, for clap.
///
/// # Errors
/// The same as for [`parse`].
pub fn parse_disk(text: &str) -> Result<DiskRequest, String> {
    asked(text).map_err(|error| error.to_string())
}

/// Splits at the first `=`, unless a longer part of the text names a directory: a path may contain one.
fn split(text: &str, is_directory: impl Fn(&Path) -> bool) -> Option<(&str, &str)> {
    let at = |index: usize| (&text[..index], &text[index + 1..]);
    let mut all = text.match_indices('=').map(|(index, _)| at(index));
    let longer = all.find(|(path, _)| is_directory(Path::new(path)));
    longer.or_else(|| text.split_once('=')).filter(|(path, disk)| !path.is_empty() && !disk.is_empty())
}

/// A profile with its options, single keys, or keys after a profile. A value may contain commas: a part that begins with no known
/// key belongs to the value before it.
fn asked(text: &str) -> Result<DiskRequest, SpecError> {
    let mut profile: Option<String> = None;
    let mut words: Vec<(&str, String)> = Vec::new();
    for part in text.split(',') {
        let key = part.split_once('=').filter(|(key, _)| KEYS.contains(&key.trim()));
        let longer = profile.as_ref().map(|profile| format!("{profile},{part}"));
        match (longer, key, words.last_mut()) {
            // `gp3:100G,iops=4000`: an option of the profile stays with the profile.
            (Some(longer), _, None) if key.is_none() || longer.parse::<ProfileSpec>().is_ok() => profile = Some(longer),
            (_, Some((key, value)), _) => words.push((key.trim(), value.to_owned())),
            (_, None, Some((_, value))) => *value = format!("{value},{part}"),
            (_, None, None) => profile = Some(part.to_owned()),
        }
    }
    let mut asked = DiskRequest { profile: profile.map(|name| name.parse()).transpose()?, ..DiskRequest::default() };
    words.iter().try_for_each(|(key, value)| set(&mut asked, key, value))?;
    Ok(asked)
}

fn set(asked: &mut DiskRequest, key: &str, value: &str) -> Result<(), SpecError> {
    let number = || SpecError { message: format!("{key}={value} is no number"), hint: format!("write {key}=4") };
    match key {
        "read" => asked.read = Some(value.parse()?),
        "write" => asked.write = Some(value.parse()?),
        "sync" => asked.sync = Some(value.parse()?),
        "iops" => asked.iops = Some(LimitSpec::parse(value, Counts::Operations)?),
        "bandwidth" => asked.bandwidth = Some(LimitSpec::parse(value, Counts::Bytes)?),
        "stalls" => asked.stalls = Some(value.parse()?),
        "depth" => asked.depth = Some(value.parse().ok().filter(|depth| *depth > 0).ok_or_else(number)?),
        "seed" => asked.seed = Some(value.parse().map_err(|_| number())?),
        _ => asked.mode = Some(mode(value)?),
    }
    Ok(())
}

fn mode(value: &str) -> Result<DelayMode, SpecError> {
    match value {
        "add" => Ok(DelayMode::Add),
        "total" => Ok(DelayMode::Total),
        other => {
            Err(SpecError { message: format!("there is no mode={other}"), hint: "write mode=add or mode=total".into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> DiskRequest {
        asked(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn single_words_and_profiles() {
        let single = words("read=10ms,write=1ms,sync=2ms");
        assert_eq!(single.read, "10ms".parse().ok());
        assert_eq!((single.write, single.sync), ("1ms".parse().ok(), "2ms".parse().ok()));
        assert_eq!(single.profile, None);
        assert_eq!(words("gp3").profile, "gp3".parse().ok());
        assert_eq!(words("gp2:100G,credits=0").profile, "gp2:100G,credits=0".parse().ok());
        let both = words("gp2:100G,credits=0,read=normal:10ms,2ms,mode=add");
        assert_eq!(both.profile, "gp2:100G,credits=0".parse().ok());
        assert_eq!((both.read, both.mode), ("normal:10ms,2ms".parse().ok(), Some(DelayMode::Add)));
    }

    #[test]
    fn words_may_hold_commas_and_equal_signs() {
        let words = words("read=lognormal:p50=1ms,p99=10ms,iops=300,burst=3000,capacity=5400000,depth=4");
        assert_eq!(words.read, "lognormal:p50=1ms,p99=10ms".parse().ok());
        assert_eq!(words.iops, LimitSpec::parse("300,burst=3000,capacity=5400000", Counts::Operations).ok());
        assert_eq!(words.depth, Some(4));
    }

    #[test]
    fn a_path_may_hold_an_equal_sign() {
        let exists = |path: &Path| path == Path::new("/a=b");
        assert_eq!(split("/a=b=gp3", exists), Some(("/a=b", "gp3")));
        assert_eq!(split("/c=read=1ms", exists), Some(("/c", "read=1ms")));
        assert_eq!(split("/c", exists), None);
        assert_eq!(split("/c=", exists), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("/d", "PATH=PROFILE"),
            ("/d=gp9", "gp9"),
            ("/d=read=soon", "soon"),
            ("/d=read=1ms,mode=half", "mode=add"),
            ("/d=read=1ms,depth=0", "no number"),
        ] {
            assert!(parse(text).is_err_and(|error| error.contains(said)), "{text}: {:?}", parse(text));
        }
    }
}
